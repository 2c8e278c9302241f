package sqliteengine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// open opens an engine on a new file.
func openNew(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// C11.26: all named statements can be prepared.
func TestEveryStatementCanBePrepared(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	c, err := e.connect(sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()

	for name, sql := range statements {
		if strings.Contains(sql, "/*each*/") {
			for _, w := range widths {
				if s, err := c.Prepare(widen(sql, w)); err != nil {
					t.Errorf("%s for %d rows: %v", name, w, err)
				} else {
					s.Finalize()
				}
			}
			continue
		}
		if s, err := c.Prepare(sql); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			s.Finalize()
		}
	}
}

// Every search of the hot path and of a step uses an index that the statement names. No statement
// sorts.
func TestNoStatementSortsOrScansJobs(t *testing.T) {
	t.Parallel()
	c, err := openNew(t).connect(sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()

	for name, sql := range statements {
		if strings.HasPrefix(strings.TrimSpace(sql), "PRAGMA") || name == "begin" || name == "commit" ||
			name == "begin_read" {
			continue
		}
		if strings.Contains(sql, "/*each*/") {
			sql = widen(sql, 4)
		}
		s, err := c.Prepare("EXPLAIN QUERY PLAN " + sql)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for {
			row, err := s.Step()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !row {
				break
			}
			plan := s.ColText(3)
			if strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") || strings.HasPrefix(plan, "SCAN jobs") &&
				name != "stray_queues" { // stray_queues runs only once per check
				t.Errorf("%s: %s", name, plan)
			}
		}
		s.Finalize()
	}
}

var quotedName = regexp.MustCompile(`"([a-z]+(?:_[a-z]+)*)"`)

func TestEveryStatementIsUsed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	used := map[string]bool{}
	for _, s := range duly.States {
		// The code builds the names of these statements.
		used["list_"+s.String()], used["list_"+s.String()+"_newest"] = true, true
	}

	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quotedName.FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
	}

	for name := range statements {
		if !used[name] {
			t.Errorf("nobody runs the statement %s", name)
		}
	}
}
