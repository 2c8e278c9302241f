package link

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// counting is the script count, sent as a function.
var counting = func() *Script {
	s := *count
	s.Function = "duly_count_0123456789"
	s.Library = &Library{Name: "duly_test_0123456789", Source: "#!lua name=duly_test_0123456789\n" +
		"redis.register_function('" + s.Function + "', function(KEYS, ARGV) return redis.call('INCRBY', KEYS[1], " +
		"ARGV[1]) end)"}
	return &s
}()

func counted(key string) Call {
	return Call{Script: counting, Keys: []string{key}, Args: []string{"1"}}
}

// TestMissingFunctionIsLoadedWithTheCall checks that a call whose function the server does not know
// is sent again as text, together with the library for later calls. The call runs even if the
// library can't be loaded. With the durability option, all these commands are sent in one pipeline.
func TestMissingFunctionIsLoadedWithTheCall(t *testing.T) {
	t.Parallel()
	for options, want := range map[string][]string{
		"":                       {"FCALL", "FUNCTION LOAD", "EVAL"},
		"?durability=replicas:1": {"FCALL", "EVAL", "WAIT", "FUNCTION LOAD", "EVAL", "EVAL", "WAIT"},
	} {
		for _, loaded := range []any{counting.Library.Name,
			resp.Error("OOM command not allowed when used memory > 'maxmemory'.")} {
			s := redistest.NewStub(t, redis70, func(args []string) any {
				switch {
				case args[0] == "FCALL":
					return resp.Error("ERR Function not found")
				case args[0] == "FUNCTION":
					return loaded
				case args[0] == "WAIT":
					return int64(1)
				case args[0] == "EVAL" && args[1] == counting.Source:
					return int64(7)
				case strings.HasPrefix(args[0], "EVAL"):
					return []any{}
				}
				return redistest.Usual{}
			})
			l := open(t, s.URL()+options)
			if err := l.Provide(t.Context(), counting.Library); err != nil || !l.UsesFunctions() {
				t.Fatal(err)
			}

			msg, durable, err := l.RunDurable(t.Context(), counted("k"))
			if n, _ := msg.AsInt64(); err != nil || durable != nil || n != 7 {
				t.Errorf("%q: got %d, %v, %v", options, n, durable, err)
			}
			if sent := since(s.Seen(), "FCALL"); !slices.Equal(sent, want) {
				t.Errorf("%q: the server received %q, want %q", options, sent, want)
			}
		}
	}
}

// since returns the names of the commands from the first one with this name on.
func since(seen [][]string, name string) (names []string) {
	for _, args := range seen {
		command := args[0]
		if command == "FUNCTION" {
			command += " " + args[1]
		}
		if len(names) > 0 || command == name {
			names = append(names, command)
		}
	}
	return names
}

// TestCallsOfALostLibraryRunOnce checks that concurrent calls after the server lost its functions
// run once each, and that later calls use functions again.
func TestCallsOfALostLibraryRunOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := open(t, s.URL())
	if err := l.Provide(t.Context(), counting.Library); err != nil {
		t.Fatal(err)
	}
	run := func(want int64) {
		t.Helper()
		for i, r := range l.RunAll(t.Context(), []Call{counted("a"), counted("b"), counted("c")}) {
			if n, _ := r.Msg.AsInt64(); r.Err != nil || n != want {
				t.Errorf("call %d returned %d, %v; want %d", i, n, r.Err, want)
			}
		}
	}
	run(1)
	s.Must("FUNCTION", "FLUSH")
	run(2)
	s.Must("CONFIG", "RESETSTAT")
	run(3)
	if stats := s.Must("INFO", "commandstats").(string); !strings.Contains(stats, "cmdstat_fcall:calls=3,") ||
		strings.Contains(stats, "cmdstat_eval") {
		t.Errorf("after the library was loaded again, the statistics of three calls are %s", stats)
	}
}

// TestRefusedLibraryIsLoggedOnce checks that a server which lost its functions and can't load them
// runs every call by EVAL. The log has one line per reason. After a library was loaded, a refusal
// is logged again.
func TestRefusedLibraryIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const noRight, fullMemory = "NOPERM this user has no permissions to run the 'function|load' command",
		"OOM command not allowed when used memory > 'maxmemory'."
	for _, options := range []string{"", "?durability=replicas:1"} {
		var reply atomic.Value
		reply.Store(any(counting.Library.Name))
		s := redistest.NewStub(t, redis70, func(args []string) any {
			switch {
			case args[0] == "FCALL":
				return resp.Error("ERR Function not found")
			case args[0] == "FUNCTION" && reply.Load() == any(counting.Library.Name):
				return counting.Library.Name
			case args[0] == "FUNCTION":
				return resp.Error(reply.Load().(string))
			case args[0] == "WAIT", args[0] == "EVAL" && args[1] == counting.Source:
				return int64(1)
			case strings.HasPrefix(args[0], "EVAL"):
				return []any{}
			}
			return redistest.Usual{}
		})
		logger, log := newLog()
		l := openWith(t, s.URL()+options, logger)
		if err := l.Provide(t.Context(), counting.Library); err != nil {
			t.Fatal(err)
		}

		warnings := 0
		for _, step := range []struct {
			reply string
			more  int // number of further warnings
		}{
			{counting.Library.Name, 0}, {noRight, 1}, {noRight, 0}, {fullMemory, 1}, {fullMemory, 0},
			{"LOADING Redis is loading the dataset in memory", 0}, {fullMemory, 0}, {counting.Library.Name, 0}, {fullMemory, 1},
		} {
			reply.Store(any(step.reply))
			if _, durable, err := l.RunDurable(t.Context(), counted("k")); err != nil || durable != nil {
				t.Fatalf("%q, %q: %v, %v", options, step.reply, durable, err)
			}
			warnings += step.more
			if lines := log.Lines("refuses to load functions"); len(lines) != warnings || step.more > 0 &&
				!strings.Contains(lines[warnings-1], step.reply[:6]) {
				t.Errorf("%q: after %q the log has %q, want %d lines", options, step.reply, lines, warnings)
			}
		}
	}
}
