package sqliteengine

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// C11.1, C11.3: the URL selects the engine, and unknown options are errors.
func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url  string
		want Config
		bad  string // the text that the error must contain
	}{
		{"sqlite:jobs.db", Config{Path: "jobs.db"}, ""},
		{"sqlite:/var/lib/duly/jobs.db", Config{Path: "/var/lib/duly/jobs.db"}, ""},
		{"sqlite:a%3Fb%25c d.db", Config{Path: "a?b%c d.db"}, ""},
		{`sqlite:C:\duly\jobs.db`, Config{Path: `C:\duly\jobs.db`}, ""},
		{"sqlite:x?synchronous=normal", Config{Path: "x", Synchronous: SyncNormal}, ""},
		{"sqlite:x?synchronous=full&max_body=1024&max_queues=7",
			Config{Path: "x", Synchronous: SyncFull, MaxBody: 1024, MaxQueues: 7}, ""},
		{"sqlite:x?", Config{Path: "x"}, ""},
		{"sqlite:", Config{}, "path is missing"},
		{"redis:x", Config{}, "must begin with sqlite:"},
		{"sqlite:x%zz", Config{}, "%25"},
		{"sqlite:x?synchronous=off", Config{}, "must be full or normal"},
		{"sqlite:x?synchronous=", Config{}, "must be full or normal"},
		{"sqlite:x?sync=full", Config{}, `unknown option "sync"`},
		{"sqlite:x?max_body=0", Config{}, "between 1 and 67108864"},
		{"sqlite:x?max_body=1MiB", Config{}, "between 1 and 67108864"},
		{"sqlite:x?max_body=67108865", Config{}, "67108864"},
		{"sqlite:x?max_queues=-1", Config{}, "between 1 and 2147483647"},
		{"sqlite:x?max_queues=99999999999", Config{}, "max_queues"},
		{"sqlite:x?max_body=1&max_body=2", Config{}, "2 times"},
		{"sqlite:x?a;b", Config{}, "options"},
		{"sqlite:x%00y", Config{}, "NUL"},
	} {
		got, err := ParseURL(test.url)
		switch {
		case test.bad == "" && (err != nil || !reflect.DeepEqual(got, test.want)):
			t.Errorf("%s is read as %+v, %v, want %+v", test.url, got, err, test.want)
		case test.bad != "" && (!errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), test.bad)):
			t.Errorf("%s answers %v, want invalid with %q", test.url, err, test.bad)
		}
	}
}

func TestConfigNamesEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{MaxBody: -1, MaxQueues: -1, Synchronous: "off"})
	var e *duly.Error
	if !errors.As(err, &e) || e.Code != duly.CodeInvalid || len(e.Fields) != 4 {
		t.Fatalf("a config with four bad fields answers %v", err)
	}
}

// SQLite before 3.51.3 can lose a commit if a checkpoint and a writer that restarts the WAL
// coincide.
func TestSQLiteIsNewEnough(t *testing.T) {
	t.Parallel()
	if v := sqliteconn.Version(); v < 3051003 {
		t.Errorf("SQLite is version %d, want at least 3.51.3", v)
	}
}
