package link

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
)

func contains(v any, part string) bool {
	text, ok := v.(string)
	return ok && strings.Contains(text, part)
}

// newLog returns a logger and its output.
func newLog() (*slog.Logger, *logtest.Log) {
	log := new(logtest.Log)
	return log.Logger(), log
}

// testLog returns a logger that writes to the test's log.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// stub returns a server that answers the scripts of a test with the results of answer, and accepts all
// other commands.
func stub(t *testing.T, version string, answer func(args []string) any) *redistest.Stub {
	t.Helper()
	return redistest.NewStub(t, version, func(args []string) any {
		if len(args) > 1 && (args[1] == mayCallScript.SHA || args[1] == mayCallScript.Source) {
			return []any{}
		}
		if strings.HasPrefix(args[0], "EVAL") || strings.HasPrefix(args[0], "WAIT") {
			return answer(args)
		}
		return redistest.Usual{}
	})
}

// inTurn returns the answers one after the other, and then repeats the last one.
func inTurn(answers ...any) func([]string) any {
	var n atomic.Int64
	return func([]string) any { return answers[min(int(n.Add(1)), len(answers))-1] }
}

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// countOwn returns how often a stub received the script, by hash or as text.
func countOwn(s *redistest.Stub, script *Script) int {
	n := 0
	for _, args := range s.Seen() {
		if len(args) > 1 && (args[1] == script.SHA || args[1] == script.Source) {
			n++
		}
	}
	return n
}
