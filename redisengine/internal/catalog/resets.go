package catalog

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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// marks holds the marks of the namespaces that this process knows. A mark is a random text,
// created with the namespace's first queue and stored next to the list of queues. Another mark,
// or none, shows that the stored data is lost: a server came back empty, was flushed, or was
// replaced by another one. If the mark is unchanged, a missing queue was destroyed.
type marks struct {
	mu    sync.Mutex
	asked uint64 // number of questions so far
	known map[string]knownMark
	reset contract.Reset // the last detected reset
}

// Resets detects and records that a store was lost.
type Resets struct {
	*store.Store
	Marks marks
}

// Last returns the last reset that was detected.
func (e *Resets) Last() contract.Reset {
	e.Marks.mu.Lock()
	defer e.Marks.mu.Unlock()
	return e.Marks.reset
}

// knownMark is a namespace's mark, "" for none, and the number of questions asked before the
// answer came. lost is the time at which the namespace's last loss was detected.
type knownMark struct {
	mark  string
	asked uint64
	lost  time.Time
}

func (e *Resets) markKey(namespace string) string { return e.Prefix + ":{" + namespace + "}:birth" }

func (b *marks) Begin() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return b.asked
}

// Update stores the answer to a question and reports whether the namespace was lost since the
// last answer. It ignores an answer that was in flight when a newer one came: the server may have
// read them in any order.
func (b *marks) Update(namespace, mark string, asked uint64, now time.Time) (lost bool, was string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.known[namespace]
	if asked <= old.asked {
		return false, ""
	}
	if b.known == nil {
		b.known = map[string]knownMark{}
	}
	// A namespace without a mark was never used, so nothing can be lost.
	if mark == "" && old.mark == "" {
		return false, ""
	}
	if lost = old.mark != "" && mark != old.mark; !lost {
		now = old.lost
	}
	b.known[namespace] = knownMark{mark, b.asked, now}
	return lost, old.mark
}

// lostSince reports whether this process has detected a loss of the namespace since a version of a
// configuration was stored.
func (b *marks) lostSince(namespace, version string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[namespace].lost.UnixMicro() >= int64(numberOf(version))
}

// AskMark reads a namespace's mark, together with other commands. It logs a lost namespace once.
func (e *Resets) AskMark(ctx context.Context, namespace string, before, after []rueidis.Completed) ([]link.Result,
	error) {
	asked := e.Marks.Begin()
	cmds := append(append(before, e.Link.B().Get().Key(e.markKey(namespace)).Build()), after...)
	results := e.Link.DoAll(ctx, cmds...)
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	mark := codec.Text(&results[len(before)].Msg)
	e.updateMark(namespace, mark, asked)
	return results[len(before)+1:], nil
}

// updateMark stores a namespace's mark, and logs the namespace if its data was lost.
func (e *Resets) updateMark(namespace, mark string, asked uint64) {
	if lost, was := e.Marks.Update(namespace, mark, asked, e.Local().Now()); lost {
		e.lost(
			duly.QueueRef{Namespace: namespace},
			"store reset: the server has lost what was stored; it came back empty, was flushed, or is another one",
			"was", was, "is", mark,
		)
	}
}

// maxLost bounds the lost queues that one reset lists.
const maxLost = 100

// lost logs a lost queue, or all queues of a namespace if ref has no name. It records the loss as
// a reset.
func (e *Resets) lost(ref duly.QueueRef, message string, args ...any) {
	about := []any{"queue", ref.String()}
	if ref.Name == "" {
		about = []any{"namespace", ref.Namespace}
	}
	e.Settings.Logger.Error(message, append(about, args...)...)
	e.Marks.remember(e.Local().Now(), func(r *contract.Reset) {
		if len(r.Queues) < maxLost && !slices.Contains(r.Queues, ref) {
			// Clip copies on append, because Last may have returned the old slice.
			r.Queues = append(slices.Clip(r.Queues), ref)
		}
	})
}

// LostTokens logs and records that the tokens were lost.
func (e *Resets) LostTokens() {
	e.Settings.Logger.Error(
		"store reset: the tokens are not those that were stored; " +
			"the server came back empty, was flushed, or was replaced by one that has fewer. " +
			"Requests with a lost token fail: look for them with duly token list, and create them again with duly token create",
	)
	e.Marks.remember(e.Local().Now(), func(r *contract.Reset) { r.Tokens = true })
}

// remember records a loss. Losses within a minute are one reset.
func (b *marks) remember(now time.Time, note func(r *contract.Reset)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.reset.At) > time.Minute {
		b.reset = contract.Reset{}
	}
	b.reset.At = now
	note(&b.reset)
}

// Others returns the namespaces with a mark that are not in this list.
func (b *marks) Others(these []string) (names []string) {
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

// AskAllMarks reads the marks of all namespaces that this process knows, and of others. A node
// that does not answer does not affect the other nodes' answers.
func (e *Resets) AskAllMarks(ctx context.Context, others []string) (failed error) {
	asked := e.Marks.Begin()
	e.Marks.mu.Lock()
	names := slices.AppendSeq(others, maps.Keys(e.Marks.known))
	e.Marks.mu.Unlock()
	slices.Sort(names)
	// Chunks keep one round trip short when a process knows many namespaces.
	for some := range slices.Chunk(slices.Compact(names), duly.MaxBatch) {
		cmds := make([]rueidis.Completed, len(some))
		for i, namespace := range some {
			cmds[i] = e.Link.B().Get().Key(e.markKey(namespace)).Build()
		}
		for i, r := range e.Link.DoAll(ctx, cmds...) {
			if r.Err == nil {
				e.updateMark(some[i], codec.Text(&r.Msg), asked)
			} else if failed == nil {
				failed = r.Err
			}
		}
	}

	return failed
}

// markNamespace gives a namespace a mark if it has none. It adds the namespace to the list of
// namespaces.
func (e *Resets) markNamespace(ctx context.Context, namespace string) error {
	raw := make([]byte, 16)
	rand.Read(raw)
	// The list comes first: a namespace with a mark but no entry would never be swept.
	if _, err := e.AddNamespaces(ctx, namespace); err != nil {
		return err
	}
	_, err := e.AskMark(
		ctx, namespace,
		[]rueidis.Completed{e.Link.B().Set().Key(e.markKey(namespace)).Value(hex.EncodeToString(raw)).Nx().Build()},
		nil,
	)
	return err
}

// AddNamespaces adds namespaces to their list and returns how many were missing.
func (e *Resets) AddNamespaces(ctx context.Context, namespaces ...string) (entered int64, err error) {
	cmd := e.Link.B().Zadd().Key(e.NamespacesKey()).ScoreMember()
	for _, namespace := range namespaces {
		cmd = cmd.ScoreMember(0, namespace)
	}
	msg, err := e.Link.Do(ctx, cmd.Build())
	if err != nil {
		return 0, err
	}
	return codec.Integer(&msg), nil
}
