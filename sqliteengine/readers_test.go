package sqliteengine

import (
	"errors"
	"testing"
)

// A read that fails or panics keeps no connection, and the next read works.
func TestPanickingReadKeepsNoConnection(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	broken := errors.New("broken")
	for name, f := range map[string]func(c *conn) error{
		"an error":          func(*conn) error { return broken },
		"an error of a row": func(c *conn) error { _, err := c.Query("SELECT nothing"); return err },
		"a panic":           func(*conn) error { panic(broken) },
		"a panic in a row":  func(c *conn) error { c.stmt("queue_names").Step(); panic(broken) },
	} {
		failed := func() (failed bool) {
			defer func() { failed = failed || recover() != nil }()
			return e.read(t.Context(), f) != nil
		}()

		if n := len(e.readers.inUse) + len(e.readers.slots); !failed || n > 0 {
			t.Errorf("%s: failed %t, %d connections are lent", name, failed, n)
		}
		if got := ids(t, e); len(got) > 0 {
			t.Errorf("%s: the next read found %v", name, got)
		}
	}
}
