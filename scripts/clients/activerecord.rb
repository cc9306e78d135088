# activerecord.rb - ActiveRecord (Rails): migrations, the statements of models, transactions, locks, batches

require 'active_record'
require 'json'

SHARDED = ENV['SHARDED'] == 'yes'

# Prints the answer of a block, or its error.
def step(name)
  puts "= #{name}: #{JSON.generate(yield)}"
rescue StandardError => e
  puts "= #{name}: ERROR #{e.class} #{e.message.split.join(' ')}"
end

# The class of the error with which a block fails, and its SQLSTATE.
def error_of
  yield
  'no error'
rescue StandardError => e
  state = e.cause.respond_to?(:result) ? e.cause.result.error_field(PG::Result::PG_DIAG_SQLSTATE) : nil
  [e.class.name, state].compact.join(' ')
end

# On sharded tables only: the block must fail with the SQLSTATE.
def refused(name, wanted, &block)
  return unless SHARDED

  got = error_of(&block)
  puts got.end_with?(wanted) ? "ok - refused: #{name}" : "not ok - refused: #{name}: #{got}, not #{wanted}"
end

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: '127.0.0.1', port: ENV['PGPORT'], username: ENV['PGUSER'], database: ENV['PGDATABASE'], pool: 5)
ActiveRecord::Migration.verbose = false
ActiveRecord::Base.logger = Logger.new($stderr) if ENV['TRACE']

class First < ActiveRecord::Migration[6.1]
  def change
    create_table(:countries, id: false) { |t| t.string :code, limit: 2, primary_key: true; t.string :name }
    create_table(:accounts) { |t| t.string :name, null: false; t.jsonb :doc; t.string :country_code, limit: 2; t.timestamps }
    create_table(:orders, primary_key: %i[account_id id]) do |t|
      t.bigint :account_id, null: false
      t.bigserial :id, null: false
      t.decimal :total, precision: 12, scale: 2, default: 0
      t.string :state, default: 'new', null: false
      t.integer :lock_version, default: 0, null: false
    end
    add_index :orders, :state
    add_foreign_key :accounts, :countries, column: :country_code, primary_key: :code
    add_foreign_key :orders, :accounts, on_delete: :cascade
  end
end

class Shard < ActiveRecord::Migration[6.1]
  def up
    execute "SELECT shardfdw.create_reference_table('countries')"
    execute "SELECT shardfdw.shard_tables('{accounts,orders}', 'account_id', shards => 4)"
  end
end

class Later < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_column :orders, :note, :text, default: 'none', null: false
    add_reference :orders, :country, type: :string, index: { algorithm: :concurrently }
    add_index :orders, :total, algorithm: :concurrently, where: "state = 'new'"
    change_column :orders, :state, :string, limit: 20
    change_column_default :orders, :state, from: 'new', to: 'open'
    add_check_constraint :orders, 'total >= 0', name: 'total_check'
    add_index :orders, %i[account_id note id], unique: true
    rename_column :orders, :country_id, :origin
    remove_column :orders, :origin, :string
  end
end

class Country < ActiveRecord::Base
  self.primary_key = 'code'
end

class Account < ActiveRecord::Base
  belongs_to :country, foreign_key: 'country_code', optional: true
  has_many :orders
end

# ActiveRecord 6.1 has no keys of two columns: id alone is the key of the model, default_scope or the association name the shard key.
class Order < ActiveRecord::Base
  self.primary_key = 'id'
  belongs_to :account
end

def migrations
  db = ActiveRecord::Base.connection
  step('migrate') { First.migrate(:up).nil? }
  Shard.migrate(:up) if SHARDED
  step('a later migration, with concurrent indexes') { Later.migrate(:up).nil? }
  step('columns') { db.columns(:orders).map { |c| [c.name, c.sql_type, c.null, c.default] } }
  step('primary keys') { [db.primary_keys('orders'), db.primary_key('accounts')] }
  step('indexes') { db.indexes(:orders).map { |i| [i.name, i.columns, i.unique, i.where] }.sort }
  step('check constraints') { db.check_constraints(:orders).map { |c| [c.name, c.expression] } }
  step('tables') { %w[countries accounts orders].map { |t| db.table_exists?(t) } }
  refused('a unique index without the shard key', '0A000') { db.add_index(:orders, :note, unique: true) }
  step('drop_table') do
    db.create_table(:later) { |t| t.string :v }
    db.execute("SELECT shardfdw.shard_table('later', shards => 4)") if SHARDED
    db.drop_table(:later)
    db.table_exists?(:later)
  end
end

def statements
  Country.insert_all!([{ code: 'DE', name: 'Germany' }, { code: 'NZ', name: 'New Zealand' }])
  [Account, Order].each(&:reset_column_information)
  step('create') { Account.create!(name: 'one', doc: { a: [1] }, country_code: 'DE').slice(:id, :name, :doc) }
  now = Time.at(0)
  step('insert_all, returning') { Account.insert_all!((0...100).map { |i| { name: "n#{i}", country_code: %w[DE NZ][i % 2], created_at: now, updated_at: now } }, returning: %w[id name]).rows }
  step('insert_all of orders') { Order.insert_all((0...300).map { |i| { account_id: 1 + i % 100, total: i } }, unique_by: %i[account_id id]).rows.length }
  step('find, save, reload') { a = Account.find(7); a.update!(name: 'seven'); a.reload.name }
  step('create through an association') { Account.find(7).orders.create!(total: 7).slice(:account_id, :total, :state, :note) }
  step('upsert_all') do
    Account.upsert_all([7, 8, 5000].map { |id| { id: id, name: "u#{id}", created_at: now, updated_at: now } })
    Account.where(id: [7, 8, 5000]).order(:id).pluck(:name)
  end
  step('insert_all skips duplicates') { Account.insert_all([7, 5001].map { |id| { id: id, name: 'x', created_at: now, updated_at: now } }).rows }
  step('upsert with unique_by') { Order.upsert_all([{ account_id: 1, id: 1, total: 9 }], unique_by: %i[account_id id]); Order.where(account_id: 1, id: 1).pick(:total) }
  step('find_or_create_by, create_or_find_by') { [Account.find_or_create_by!(name: 'new').name, Account.create_or_find_by!(id: 5002, name: 'new').id, Account.create_or_find_by!(id: 5002, name: 'new').id] }
  step('update_all, delete_all') { [Order.where('total < 50').update_all(state: 'old'), Order.where(account_id: [90, 91]).delete_all] }
  step('update_counters, increment!') { o = Order.where(account_id: 3).order(:id).first; o.increment!(:total, 5); Order.where(account_id: 3).sum(:total) }
  step('update by an id alone') { Order.where(account_id: 4).order(:id).first.update!(note: 'by id') }
  step('optimistic locking') do
    a, b = Array.new(2) { Order.where(account_id: 5).order(:id).first }
    a.update!(note: 'first')
    error_of { b.update!(note: 'second') }
  end
  step('destroy, ON DELETE CASCADE') { Account.find(89).destroy; Order.where(account_id: 89).count }
  step('includes, preload') { Account.includes(:country, :orders).where(id: [1, 2, 3]).order(:id).map { |a| [a.name, a.country&.name, a.orders.map(&:total).sort] } }
  step('joins, eager_load') { Account.eager_load(:orders).where('orders.total > 290').order(:id).map { |a| [a.id, a.orders.length] } }
  step('where.missing, exists?') { [Account.where.missing(:orders).count, Order.exists?(account_id: 2), Account.where(id: Order.where('total > 290').select(:account_id)).count] }
  step('pages') { [Order.where(state: 'open').count, Order.order(total: :desc, id: :asc).offset(10).limit(5).pluck(:id)] }
  step('group, having') { [Order.group(:state).having('count(*) > 1').order(:state).sum(:total), Order.maximum(:total), Order.distinct.count(:state)] }
  step('find_each, in_batches') { [Order.find_each(batch_size: 50).count, Account.in_batches(of: 30).sum(&:count)] }
end

def transactions
  step('rolled back') { Order.transaction { Order.update_all(note: 'gone'); raise ActiveRecord::Rollback }; Order.where(note: 'gone').count }
  step('savepoints') do
    error = nil
    Account.transaction do
      Account.create!(id: 8001, name: 'a')
      error = error_of { Account.transaction(requires_new: true) { Account.create!(id: 8001, name: 'b') } }
      Account.create!(id: 8002, name: 'c')
    end
    [error, Account.where(id: [8001, 8002]).count]
  end
  step('errors') { [error_of { Account.create!(id: 1, name: 'x') }, error_of { Order.create!(account_id: 1, total: -1) }, error_of { Account.create!(name: 'x', country_code: '??') }, error_of { Account.insert_all!([{ name: nil, created_at: Time.now, updated_at: Time.now }]) }] }
  step('lock, SKIP LOCKED') do
    Order.transaction do
      first = Order.where(state: 'open').order(:account_id, :id).limit(3).lock('FOR UPDATE SKIP LOCKED').pluck(:id)
      second = Thread.new { Order.transaction { Order.where(state: 'open').order(:account_id, :id).limit(3).lock('FOR UPDATE SKIP LOCKED').pluck(:id) } }.value
      [first, second]
    end
  end
  step('with_lock') { Account.find(5).with_lock { |_| 'locked' } }
  step('an isolation level') { Order.transaction(isolation: :repeatable_read) { Order.count } }
  step('advisory lock of migrations') { c = ActiveRecord::Base.connection; [c.get_advisory_lock(42), c.release_advisory_lock(42)] }
  step('truncate') { ActiveRecord::Base.connection.truncate(:orders); Order.count }
end

migrations
statements
transactions
