package sqliteengine

import (
	"context"
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// watching calls WatchTokens in a goroutine, and returns after the first notification.
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

func aToken(t *testing.T, e *Engine) contract.Token {
	t.Helper()
	token := contract.Token{Hash: [32]byte{1}, Namespace: "a", Rights: contract.RightConsume}
	if err := e.PutToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	return token
}

// C4.92: the commit notifies the watchers, even if the caller has left.
func TestAbandonedChangeNotifiesWatchers(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	token := aToken(t, e)
	told := watching(t, e)
	ctx, leave := context.WithCancel(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	gone := make(chan error)
	letGo := held(t, e)

	go func() {
		gone <- e.changeToken(ctx, spaceSome, func(tx *tx) error {
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
		t.Error("notified of a change before its commit")
	}

	close(goOn)
	soon(t, told)
	if _, err := e.FindToken(t.Context(), token.Hash); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("notified of a change that is not stored: %v", err)
	}
}

// C4.92: a failed commit may have taken effect, so a reopened store notifies the watchers.
func TestReopenNotifiesWatchers(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	told := watching(t, e)
	if err := e.change(t.Context(), pushed("b", ioError())); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the failed one is answered %v", err)
	}
	soon(t, told)
}

// Refused changes and changes of queues do not notify watchers.
func TestOtherChangesDoNotNotify(t *testing.T) {
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
		t.Error("notified twice of one change")
	}
	if err := e.DeleteToken(t.Context(), token.Hash); err != nil {
		t.Fatal(err)
	}

	soon(t, told)
}
