package sqliteengine

import (
	"embed"
	"fmt"
	"strings"

	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

//go:embed sql
var sqlFiles embed.FS

// statements holds every named statement of sql/*.sql. It never changes.
var statements = readStatements()

// readStatements parses the files. A statement begins after its "-- name:" line and
// ends at its semicolon.
func readStatements() map[string]string {
	found := map[string]string{}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		panic(err)
	}

	for _, f := range files {
		if f.IsDir() {
			continue
		}
		text, err := sqlFiles.ReadFile("sql/" + f.Name())
		if err != nil {
			panic(err)
		}
		for _, part := range strings.Split(string(text), "-- name: ")[1:] {
			name, rest, _ := strings.Cut(part, "\n")
			sql, _, ok := strings.Cut(rest, ";")
			if name = strings.TrimSpace(name); !ok || found[name] != "" {
				panic(fmt.Sprintf("sqliteengine: statement %q in %s has a duplicate name or no end", name, f.Name()))
			}
			found[name] = sql
		}
	}

	return found
}

// widths lists the row counts for which wide statements are prepared. Any number of rows is a sum
// of a few of these counts.
var widths = [...]int{64, 16, 4, 1}

// width returns the largest width of at most n rows.
func width(n int) int {
	for _, w := range widths {
		if w <= n {
			return w
		}
	}
	return 1
}

// widen repeats the part between "each" and "end" n times.
func widen(sql string, n int) string {
	head, rest, ok1 := strings.Cut(sql, "/*each*/")
	each, tail, ok2 := strings.Cut(rest, "/*end*/")
	if !ok1 || !ok2 {
		panic("sqliteengine: statement has no each and end: " + sql)
	}
	return head + strings.Repeat(each+",", n-1) + each + tail
}

// conn is a connection with its prepared statements.
type conn struct {
	*sqliteconn.Conn
	named map[string]*sqliteconn.Stmt
	wide  map[wideName]*sqliteconn.Stmt
}

type wideName struct {
	name string
	rows int
}

func newConn(c *sqliteconn.Conn) *conn {
	return &conn{Conn: c, named: map[string]*sqliteconn.Stmt{}, wide: map[wideName]*sqliteconn.Stmt{}}
}

// stmt returns the named statement and prepares it at its first use. If that fails, the
// statement's runs return the error.
func (c *conn) stmt(name string) *sqliteconn.Stmt {
	if s := c.named[name]; s != nil {
		return s
	}
	sql, ok := statements[name]
	if !ok {
		panic("sqliteengine: there is no statement " + name)
	}
	s, err := c.Prepare(sql)
	if err != nil {
		return sqliteconn.Broken(c.Conn, fmt.Errorf("prepare %s: %w", name, err))
	}
	c.named[name] = s
	return s
}

// many returns the named statement for a number of rows, which must be one of widths.
func (c *conn) many(name string, rows int) *sqliteconn.Stmt {
	key := wideName{name, rows}
	if s := c.wide[key]; s != nil {
		return s
	}
	sql, ok := statements[name]
	if !ok {
		panic("sqliteengine: there is no statement " + name)
	}
	s, err := c.Prepare(widen(sql, rows))
	if err != nil {
		return sqliteconn.Broken(c.Conn, fmt.Errorf("prepare %s for %d rows: %w", name, rows, err))
	}
	c.wide[key] = s
	return s
}

// close frees the statements and closes the connection.
func (c *conn) close() error {
	for _, s := range c.named {
		s.Finalize()
	}
	for _, s := range c.wide {
		s.Finalize()
	}
	return c.Close()
}
