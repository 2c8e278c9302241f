package redisengine_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestCursorWithAnInvalidScoreIsRefused checks that a forged cursor with a score that Redis can't
// read is an invalid argument, and is not sent to the server (C4.51).
func TestCursorWithAnInvalidScoreIsRefused(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: "x"}}); err != nil {
		t.Fatal(err)
	}
	for _, score := range []string{"nan", "-nan", "1_0", "inf", "0x1p4", "(0", " 1"} {
		cursor := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
			`{"state":"ready","shard":0,"score":%q,"member":"AaIBad1qVb9/14KBRH2X8A=="}`, score))
		_, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady,
			PageParams: duly.PageParams{Cursor: cursor}})
		if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("score %q: %v, want %s", score, err, duly.CodeInvalid)
		}
	}
}
