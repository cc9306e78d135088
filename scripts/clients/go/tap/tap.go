// Package tap is what the programs in Go share. Each prints answers, which both.py compares between databases.
package tap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Sharded says whether the database has nodes.
var Sharded = os.Getenv("SHARDED") == "yes"

// URL is the address of the database.
var URL = fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s", os.Getenv("PGUSER"), os.Getenv("PGPORT"), os.Getenv("PGDATABASE"))

// State is the SQLSTATE of an error, or "no error".
func State(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &pg):
		return pg.Code
	}
	return err.Error()
}

// Step prints the answer of a function, or its error.
func Step(name string, action func() (any, error)) {
	value, err := action()
	if err != nil {
		fmt.Printf("= %s: ERROR %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	text, err := json.Marshal(value)
	Must(err)
	fmt.Printf("= %s: %s\n", name, text)
}

// Refused is for sharded tables only: the action must fail with the SQLSTATE.
func Refused(name, wanted string, action func() error) {
	if !Sharded {
		return
	}
	if got := State(action()); got != wanted {
		fmt.Printf("not ok - refused: %s: %s, not %s\n", name, got, wanted)
		return
	}
	fmt.Printf("ok - refused: %s\n", name)
}

// Must ends the program with an error that no test expects.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}
