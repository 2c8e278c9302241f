package sqliteengine

import (
	"context"
	"errors"
	"testing"

	"github.com/dulymq/duly"
)

// watching is a watch of the engine's tokens; its first notice has come.
func watching(t *testing.T, e *Engine) (told chan bool) {
	t.Helper()
	told = make(chan bool, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.WatchTokens(ctx, func(hearing bool) { told <- hearing })
	}()
	t.Cleanup(func() { cancel(); soon(t, done) })
	soon(t, told)
	return told
}

func aToken(t *testing.T, e *Engine) duly.Token {
	t.Helper()
	token := duly.Token{Hash: [32]byte{1}, Namespace: "a", Rights: duly.RightConsume}
	if err := e.PutToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	return token
}

// C4.92: the notice belongs to the commit, not to the caller: one that has gone
// takes it with him as little as he takes back the change.
func TestAChangeWhoseCallerHasGoneIsTold(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	token := aToken(t, e)
	told := watching(t, e)
	ctx, leave := context.WithCancel(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	gone := make(chan error)
	letGo := held(t, e)

	go func() {
		gone <- e.changeToken(ctx, needsLittle, func(tx *tx) error {
			close(begun)
			<-goOn
			_, err := tx.stmt("token_drop").Blob(1, token.Hash[:]).Run()
			return err
		})
	}()

	letGo()
	soon(t, begun)
	leave()
	if err := soon(t, gone); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that has gone is answered %v", err)
	}
	if len(told) != 0 {
		t.Error("told of a change before it was committed")
	}

	close(goOn)
	soon(t, told)
	if _, err := e.FindToken(t.Context(), token.Hash); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("told of a change that is not there: %v", err)
	}
}

// C4.92: a commit that has failed may have happened, so whoever remembers
// tokens has to look again when the store is open again.
func TestAStoreThatWasOpenedAgainIsTold(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	told := watching(t, e)
	if err := e.change(t.Context(), pushed("b", ioError())); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the failed one is answered %v", err)
	}
	soon(t, told)
}

// A change that is refused, and one of a queue, concern no token.
func TestOtherChangesAreNotTold(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	told := watching(t, e)
	if err := e.change(t.Context(), pushed("a", nil)); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteToken(t.Context(), [32]byte{9}); !errors.Is(err, duly.ErrNotFound) {
		t.Fatal(err)
	}

	token := aToken(t, e)
	soon(t, told)
	if len(told) != 0 {
		t.Error("told twice of one change")
	}
	if err := e.DeleteToken(t.Context(), token.Hash); err != nil {
		t.Fatal(err)
	}

	soon(t, told)
}
