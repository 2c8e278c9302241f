package sqliteengine

import (
	"embed"
	"fmt"
	"strings"

	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

//go:embed sql
var sqlFiles embed.FS

// statements is every named statement of sql/*.sql. It is read once and never
// changed.
var statements = readStatements()

// readStatements parses the files. A statement begins behind its "-- name:"
// line and ends at its semicolon.
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
				panic(fmt.Sprintf("sqliteengine: statement %q in %s is named twice or has no end", name, f.Name()))
			}
			found[name] = sql
		}
	}

	return found
}

// widths are the numbers of rows that a wide statement is prepared for; any
// number of rows is a sum of few of them.
var widths = [...]int{64, 16, 4, 1}

// width is the widest of them that n rows fill.
func width(n int) int {
	for _, w := range widths {
		if w <= n {
			return w
		}
	}
	return 1
}

// widen repeats what stands between "each" and "end" n times.
func widen(sql string, n int) string {
	head, rest, ok1 := strings.Cut(sql, "/*each*/")
	each, tail, ok2 := strings.Cut(rest, "/*end*/")
	if !ok1 || !ok2 {
		panic("sqliteengine: a statement without each and end was asked for many rows: " + sql)
	}
	return head + strings.Repeat(each+",", n-1) + each + tail
}

// conn is a connection with the statements that were used on it.
type conn struct {
	*sq.Conn
	named map[string]*sq.Stmt
	wide  map[wideName]*sq.Stmt
}

type wideName struct {
	name string
	rows int
}

func newConn(c *sq.Conn) *conn {
	return &conn{Conn: c, named: map[string]*sq.Stmt{}, wide: map[wideName]*sq.Stmt{}}
}

// stmt is the named statement, prepared when it is asked for first. One that
// can't be prepared says why when it is run.
func (c *conn) stmt(name string) *sq.Stmt {
	if s := c.named[name]; s != nil {
		return s
	}
	sql, ok := statements[name]
	if !ok {
		panic("sqliteengine: no statement is named " + name)
	}
	s, err := c.Prepare(sql)
	if err != nil {
		return sq.Broken(c.Conn, fmt.Errorf("prepare %s: %w", name, err))
	}
	c.named[name] = s
	return s
}

// many is the named statement for that many rows, one of widths.
func (c *conn) many(name string, rows int) *sq.Stmt {
	key := wideName{name, rows}
	if s := c.wide[key]; s != nil {
		return s
	}
	sql, ok := statements[name]
	if !ok {
		panic("sqliteengine: no statement is named " + name)
	}
	s, err := c.Prepare(widen(sql, rows))
	if err != nil {
		return sq.Broken(c.Conn, fmt.Errorf("prepare %s for %d rows: %w", name, rows, err))
	}
	c.wide[key] = s
	return s
}

// close finalizes the statements and closes the connection.
func (c *conn) close() error {
	for _, s := range c.named {
		s.Finalize()
	}
	for _, s := range c.wide {
		s.Finalize()
	}
	return c.Close()
}
