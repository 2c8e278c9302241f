package redisengine

import (
	"testing"

	"github.com/dulymq/duly"
)

// An answer that there is no queue may come after somebody here has made it:
// what was not known when the question was asked is not forgotten by it. Else
// whoever waits would not watch the shards any more.
func TestAQueueThatIsMadeMeanwhileIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	q := s.e.queues.get(duly.Q("q").Normal())
	s.e.queues.forget(nil) // asked before it was made
	if s.e.queues.get(q.ref) != q {
		t.Error("the queue that was made meanwhile is forgotten")
	}
	older := *q
	s.e.queues.forget(&older)
	if s.e.queues.get(q.ref) != q {
		t.Error("the queue that was changed meanwhile is forgotten")
	}
	s.e.queues.forget(q)
	if s.e.queues.get(q.ref) != nil {
		t.Error("the queue that has gone is still known")
	}
}

// Of two questions for a namespace's mark that are on their way at once, the one
// that was asked last may be heard first: that it found none yet is no reset.
func TestAnAnswerThatWasOvertakenIsNoReset(t *testing.T) {
	t.Parallel()
	var b births
	making, looking := b.ask(), b.ask()
	if lost, _ := b.hear("ns", "mark", making); lost {
		t.Error("the first mark is told as a reset")
	}
	if lost, _ := b.hear("ns", "", looking); lost {
		t.Error("an answer from before the mark was made is told as a reset")
	}
	if lost, was := b.hear("ns", "", b.ask()); !lost || was != "mark" {
		t.Errorf("a mark that has gone: lost %t, was %q", lost, was)
	}
}
