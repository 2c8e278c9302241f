package redisengine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// births are the marks of the namespaces that this process knows: random
// texts, each made with the namespace's first queue. A mark stands beside the
// namespace's list of queues, so it is lost with that. A process that finds
// another one, or none, knows that what was stored is lost: a server came back
// empty, was flushed, or another one stands in its place. A queue that is gone
// while the mark still stands was destroyed.
type births struct {
	mu    sync.Mutex
	asked uint64 // questions so far
	known map[string]birth
	reset duly.Reset // the last one that was found out
}

// birth is a namespace's mark, "" for none, as the answer to a question told
// it, and how many questions had been asked when the answer came.
type birth struct {
	mark  string
	asked uint64
}

func (e *Engine) birthKey(namespace string) string { return e.prefix + ":{" + namespace + "}:birth" }

func (b *births) ask() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return b.asked
}

// hear takes over the answer to a question, and tells whether the namespace was
// lost since the one before. The answer to a question that was on its way when
// another one came says nothing: the server may have heard them in any order.
func (b *births) hear(namespace, mark string, asked uint64) (lost bool, was string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.known[namespace]
	if asked <= old.asked {
		return false, ""
	}
	if b.known == nil {
		b.known = map[string]birth{}
	}
	if mark == "" && old.mark == "" { // nobody has made it, and nothing is to be remembered of it
		return false, ""
	}
	b.known[namespace] = birth{mark, b.asked}
	return old.mark != "" && mark != old.mark, old.mark
}

// ask asks for a namespace's mark, together with what else is asked, and
// reports a namespace that was lost, once.
func (e *Engine) ask(ctx context.Context, namespace string, before, after []rueidis.Completed) ([]link.Result, error) {
	asked := e.births.ask()
	cmds := append(append(before, e.link.B().Get().Key(e.birthKey(namespace)).Build()), after...)
	results := e.link.DoAll(ctx, cmds...)
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	mark := text(&results[len(before)].Msg)
	e.heard(namespace, mark, asked)
	return results[len(before)+1:], nil
}

// heard takes over the answer to a question for a namespace's mark.
func (e *Engine) heard(namespace, mark string, asked uint64) {
	if lost, was := e.births.hear(namespace, mark, asked); lost {
		e.lost(duly.QueueRef{Namespace: namespace}, "store reset: the server has lost what was stored; it came back empty, was flushed, or is another one",
			"was", was, "is", mark)
	}
}

// mostLost bounds the queues that are remembered of a reset.
const mostLost = 100

// lost tells, loudly, that a queue was lost, or all of a namespace where the
// queue has no name.
func (e *Engine) lost(ref duly.QueueRef, message string, args ...any) {
	about := []any{"queue", ref.String()}
	if ref.Name == "" {
		about = []any{"namespace", ref.Namespace}
	}
	e.cfg.Logger.Error(message, append(about, args...)...)
	e.births.remember(e.local().Now(), func(r *duly.Reset) {
		if len(r.Queues) < mostLost && !slices.Contains(r.Queues, ref) {
			r.Queues = append(slices.Clip(r.Queues), ref) // those that were handed out stay as they are
		}
	})
}

// lostTokens does so for the tokens.
func (e *Engine) lostTokens() {
	e.cfg.Logger.Error("store reset: the tokens are not those that were stored; the server came back empty, was flushed, or took the place of one that had more. " +
		"Nobody is let in by a token that is lost: look for them by duly token list, and make them again by duly token create")
	e.births.remember(e.local().Now(), func(r *duly.Reset) { r.Tokens = true })
}

// remember notes what was lost. What is lost within a minute is one reset.
func (b *births) remember(now time.Time, note func(r *duly.Reset)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.reset.At) > time.Minute {
		b.reset = duly.Reset{}
	}
	b.reset.At = now
	note(&b.reset)
}

// LastReset implements duly.Resetter.
func (e *Engine) LastReset() duly.Reset {
	e.births.mu.Lock()
	defer e.births.mu.Unlock()
	return e.births.reset
}

// others are the namespaces that stand, as far as this process knows, and are not
// among these.
func (b *births) others(these []string) (names []string) {
	slices.Sort(these)
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace, known := range b.known {
		if _, found := slices.BinarySearch(these, namespace); !found && known.mark != "" {
			names = append(names, namespace)
		}
	}
	return names
}

// askAll asks for the marks of all namespaces that this process knows, and of
// others. A node that does not answer keeps no other's from being heard.
func (e *Engine) askAll(ctx context.Context, others []string) (failed error) {
	asked := e.births.ask()
	e.births.mu.Lock()
	names := slices.AppendSeq(others, maps.Keys(e.births.known))
	e.births.mu.Unlock()
	slices.Sort(names)
	for some := range slices.Chunk(slices.Compact(names), duly.MaxBatch) {
		cmds := make([]rueidis.Completed, len(some))
		for i, namespace := range some {
			cmds[i] = e.link.B().Get().Key(e.birthKey(namespace)).Build()
		}
		for i, r := range e.link.DoAll(ctx, cmds...) {
			if r.Err == nil {
				e.heard(some[i], text(&r.Msg), asked)
			} else if failed == nil {
				failed = r.Err
			}
		}
	}
	return failed
}

// bear marks a namespace that has no mark yet, and enters it into the list of
// namespaces.
func (e *Engine) bear(ctx context.Context, namespace string) error {
	raw := make([]byte, 16)
	rand.Read(raw)
	if _, err := e.enlist(ctx, namespace); err != nil {
		return err
	}
	_, err := e.ask(ctx, namespace, []rueidis.Completed{e.link.B().Set().Key(e.birthKey(namespace)).Value(hex.EncodeToString(raw)).Nx().Build()}, nil)
	return err
}

// enlist enters namespaces into their list, and tells how many were not there.
func (e *Engine) enlist(ctx context.Context, namespaces ...string) (entered int64, err error) {
	cmd := e.link.B().Zadd().Key(e.namespacesKey()).ScoreMember()
	for _, namespace := range namespaces {
		cmd = cmd.ScoreMember(0, namespace)
	}
	msg, err := e.link.Do(ctx, cmd.Build())
	if err != nil {
		return 0, err
	}
	return integer(&msg), nil
}

// askQueue asks for a queue's entry in its namespace's list; "" for none.
func (e *Engine) askQueue(ctx context.Context, ref duly.QueueRef) (string, error) {
	results, err := e.ask(ctx, ref.Namespace, nil, []rueidis.Completed{e.link.B().Hget().Key(e.configsKey(ref.Namespace)).Field(ref.Name).Build()})
	if err != nil {
		return "", err
	}
	return text(&results[0].Msg), nil
}
