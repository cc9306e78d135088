// GORM 1 over pgx: AutoMigrate and Migrator, the statements of its API, associations, transactions
package main

import (
	"errors"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"tryclients/tap"
)

type Country struct {
	Code string `gorm:"primaryKey;size:2"`
	Name string
}

type Account struct {
	ID          int64 `gorm:"primaryKey"`
	Name        string
	CountryCode *string
	Country     *Country `gorm:"foreignKey:CountryCode"`
	Orders      []Order  `gorm:"constraint:OnDelete:CASCADE"`
}

type Order struct {
	AccountID int64   `gorm:"primaryKey;autoIncrement:false"`
	ID        int64   `gorm:"primaryKey;autoIncrement"`
	Total     float64 `gorm:"type:numeric(12,2);default:0"`
	State     string  `gorm:"size:10;default:new;index"`
	Note      *string
}

// Later is Order after a change of the application.
type Later struct {
	Order
	Origin string `gorm:"default:web;not null"`
	Rank   int    `gorm:"index;check:rank_check,rank >= 0;default:1"`
}

func (Later) TableName() string { return "orders" }

func main() {
	db := open(false)
	migrations(db)
	statements(db)
	transactions(db)
}

func open(withoutForeignKeys bool) *gorm.DB {
	db, err := gorm.Open(postgres.Open(tap.URL), &gorm.Config{TranslateError: true, Logger: logger.Discard, DisableForeignKeyConstraintWhenMigrating: withoutForeignKeys})
	tap.Must(err)
	return db
}

func migrations(db *gorm.DB) {
	m := db.Migrator()
	tap.Step("AutoMigrate", func() (any, error) { return nil, db.AutoMigrate(&Country{}, &Account{}, &Order{}) })
	if tap.Sharded {
		tap.Must(db.Exec("SELECT shardfdw.create_reference_table('countries')").Error)
		tap.Must(db.Exec("SELECT shardfdw.shard_tables('{accounts,orders}', 'account_id', shards => 4)").Error)
	}
	// GORM does not see the foreign keys of shards.
	tap.Refused("AutoMigrate again, with foreign keys", "42710", func() error { return db.AutoMigrate(&Country{}, &Account{}, &Order{}) })
	tap.Step("AutoMigrate again, without foreign keys", func() (any, error) { return nil, open(true).AutoMigrate(&Country{}, &Account{}, &Order{}) })
	tap.Step("AutoMigrate with more columns, an index and a CHECK", func() (any, error) {
		err := db.AutoMigrate(&Later{})
		return []bool{m.HasColumn(&Later{}, "Origin"), m.HasIndex(&Later{}, "Rank"), m.HasConstraint(&Later{}, "rank_check")}, err
	})
	tap.Step("ColumnTypes", func() (any, error) {
		types, err := m.ColumnTypes(&Later{})
		var all [][]any
		for _, t := range types {
			nullable, _ := t.Nullable()
			primary, _ := t.PrimaryKey()
			all = append(all, []any{t.Name(), t.DatabaseTypeName(), nullable, primary})
		}
		return all, err
	})
	tap.Step("GetTables", func() (any, error) { _, err := m.GetTables(); return m.HasTable("orders"), err })
	tap.Step("RenameColumn, DropColumn", func() (any, error) {
		if err := m.RenameColumn(&Later{}, "rank", "ranking"); err != nil {
			return nil, err
		}
		return nil, m.DropColumn(&Later{}, "ranking")
	})
	tap.Step("CREATE INDEX CONCURRENTLY", func() (any, error) {
		return nil, db.Exec("CREATE INDEX CONCURRENTLY orders_total ON orders (total)").Error
	})
	tap.Refused("a unique index without the shard key", "0A000", func() error { return db.Exec("CREATE UNIQUE INDEX orders_note ON orders (note)").Error })
	tap.Step("DropTable", func() (any, error) {
		type Temporary struct{ ID int64 }
		if err := db.AutoMigrate(&Temporary{}); err != nil {
			return nil, err
		}
		if tap.Sharded {
			tap.Must(db.Exec("SELECT shardfdw.shard_table('temporaries', shards => 4)").Error)
		}
		err := m.DropTable(&Temporary{})
		return m.HasTable("temporaries"), err
	})
}

func statements(db *gorm.DB) {
	de, nz := "DE", "NZ"
	tap.Must(db.Create([]Country{{de, "Germany"}, {nz, "New Zealand"}}).Error)
	tap.Step("Create with associations", func() (any, error) {
		account := Account{Name: "one", CountryCode: &de, Orders: []Order{{Total: 1}, {Total: 2}}}
		err := db.Create(&account).Error
		return account, err
	})
	var many []Account
	for i := range 100 {
		many = append(many, Account{Name: string(rune('a' + i%26)), CountryCode: []*string{&de, &nz}[i%2]})
	}
	tap.Step("CreateInBatches", func() (any, error) { err := db.CreateInBatches(&many, 30).Error; return many[99].ID, err })
	tap.Step("Create of many orders", func() (any, error) {
		var orders []Order
		for i := range 300 {
			orders = append(orders, Order{AccountID: int64(1 + i%100), Total: float64(i)})
		}
		result := db.Create(&orders)
		return []any{result.RowsAffected, orders[299].ID}, result.Error
	})
	tap.Step("First, Save, Updates", func() (any, error) {
		var account Account
		if err := db.First(&account, 7).Error; err != nil {
			return nil, err
		}
		account.Name = "seven"
		err := db.Save(&account).Error
		result := db.Model(&account).Updates(map[string]any{"name": gorm.Expr("upper(name)")})
		db.First(&account)
		return []any{account.Name, result.RowsAffected}, errors.Join(err, result.Error)
	})
	tap.Step("Save of a row that is not there", func() (any, error) { return nil, db.Save(&Account{ID: 5000, Name: "saved"}).Error })
	tap.Step("OnConflict", func() (any, error) {
		update := db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&[]Account{{ID: 7, Name: "upserted"}, {ID: 5001, Name: "new"}})
		nothing := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Account{{ID: 7, Name: "x"}, {ID: 5002, Name: "y"}})
		return []int64{update.RowsAffected, nothing.RowsAffected}, errors.Join(update.Error, nothing.Error)
	})
	tap.Step("FirstOrCreate", func() (any, error) {
		made := db.Attrs(Account{Name: "made"}).FirstOrCreate(&Account{}, Account{ID: 6000})
		found := db.Attrs(Account{Name: "again"}).FirstOrCreate(&Account{}, Account{ID: 6000})
		return []int64{made.RowsAffected, found.RowsAffected}, errors.Join(made.Error, found.Error)
	})
	tap.Step("Update of many, with RETURNING", func() (any, error) {
		var changed []Order
		result := db.Model(&changed).Clauses(clause.Returning{}).Where("total < ?", 50).Update("state", "old")
		return []int64{result.RowsAffected, int64(len(changed))}, result.Error
	})
	tap.Step("Delete", func() (any, error) {
		one := db.Delete(&Order{AccountID: 1, ID: 1})
		some := db.Where("account_id IN ?", []int{90, 91}).Delete(&Order{})
		cascade := db.Delete(&Account{}, 89)
		var n int64
		db.Model(&Order{}).Where("account_id = 89").Count(&n)
		return []int64{one.RowsAffected, some.RowsAffected, cascade.RowsAffected, n}, errors.Join(one.Error, some.Error, cascade.Error)
	})
	tap.Step("both columns of a key are in the condition", func() (any, error) {
		order := Order{AccountID: 3, ID: 5, State: "saved"}
		return []string{
			db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Save(&order) }),
			db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Model(&order).Update("state", "x") }),
			db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Delete(&order) }),
		}, db.Save(&order).Error
	})
	tap.Step("Preload", func() (any, error) {
		var accounts []Account
		err := db.Preload("Orders", func(db *gorm.DB) *gorm.DB { return db.Order("id") }).Preload("Country").Order("id").Find(&accounts, []int{1, 2, 3}).Error
		return accounts, err
	})
	tap.Step("Joins", func() (any, error) {
		var accounts []Account
		err := db.Joins("Country").Where(`"Country".name = ?`, "Germany").Order("accounts.id").Limit(3).Find(&accounts).Error
		return accounts, err
	})
	tap.Step("Association", func() (any, error) {
		account := Account{ID: 7}
		if err := db.Model(&account).Association("Orders").Append(&Order{Total: 77}); err != nil {
			return nil, err
		}
		return db.Model(&account).Association("Orders").Count(), nil
	})
	tap.Step("Offset, Limit, Count", func() (any, error) {
		var n int64
		var orders []Order
		query := db.Model(&Order{}).Where("state = ?", "new")
		err := errors.Join(query.Count(&n).Error, query.Order("total DESC, id").Offset(10).Limit(5).Find(&orders).Error)
		return []any{n, orders}, err
	})
	tap.Step("Group, Having", func() (any, error) {
		var groups []struct {
			State string
			N     int64
			Sum   float64
		}
		err := db.Model(&Order{}).Select("state, count(*) AS n, sum(total) AS sum").Group("state").Having("count(*) > 1").Order("state").Find(&groups).Error
		return groups, err
	})
	tap.Step("a sub-query", func() (any, error) {
		var n int64
		err := db.Model(&Account{}).Where("id IN (?)", db.Model(&Order{}).Select("account_id").Where("total > 290")).Count(&n).Error
		return n, err
	})
	tap.Step("FindInBatches", func() (any, error) {
		var n int
		var accounts []Account
		err := db.FindInBatches(&accounts, 30, func(_ *gorm.DB, _ int) error { n += len(accounts); return nil }).Error
		return n, err
	})
	tap.Step("FindInBatches of a key of two columns", func() (any, error) {
		seen := map[[2]int64]bool{}
		var orders []Order
		err := db.Order("account_id").FindInBatches(&orders, 50, func(_ *gorm.DB, _ int) error {
			for _, o := range orders {
				seen[[2]int64{o.AccountID, o.ID}] = true
			}
			return nil
		}).Error
		return len(seen) > 0, err
	})
}

func transactions(db *gorm.DB) {
	tap.Step("Transaction, rolled back", func() (any, error) {
		stop := errors.New("stop")
		err := db.Transaction(func(tx *gorm.DB) error { tx.Model(&Order{}).Where("1 = 1").Update("note", "gone"); return stop })
		var n int64
		db.Model(&Order{}).Where("note = 'gone'").Count(&n)
		return []any{err == stop, n}, nil
	})
	tap.Step("a transaction in a transaction", func() (any, error) {
		var inner error
		var n int64
		err := db.Transaction(func(tx *gorm.DB) error {
			tx.Create(&Account{ID: 8001, Name: "a"})
			inner = tx.Transaction(func(nested *gorm.DB) error { return nested.Create(&Account{ID: 8001, Name: "b"}).Error })
			tx.Create(&Account{ID: 8002, Name: "c"})
			return tx.Model(&Account{}).Where("id IN (8001, 8002)").Count(&n).Error
		})
		return []any{errors.Is(inner, gorm.ErrDuplicatedKey), n}, err
	})
	tap.Step("ErrForeignKeyViolated", func() (any, error) {
		nowhere := "??"
		return errors.Is(db.Create(&Account{Name: "x", CountryCode: &nowhere}).Error, gorm.ErrForeignKeyViolated), nil
	})
	tap.Step("Locking, SKIP LOCKED", func() (any, error) {
		var taken [2][]Order
		for i := range 2 {
			tx := db.Begin()
			defer tx.Rollback()
			if err := tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Where("state = 'new'").Order("account_id, id").Limit(3).Find(&taken[i]).Error; err != nil {
				return nil, err
			}
		}
		return taken, nil
	})
}
