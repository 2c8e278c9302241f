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
	q := s.e.catalog.Cache.Get(duly.Q("q").Normal())
	s.e.catalog.Cache.Forget(nil) // asked before it was made
	if s.e.catalog.Cache.Get(q.Ref) != q {
		t.Error("the queue that was made meanwhile is forgotten")
	}
	older := *q
	s.e.catalog.Cache.Forget(&older)
	if s.e.catalog.Cache.Get(q.Ref) != q {
		t.Error("the queue that was changed meanwhile is forgotten")
	}
	s.e.catalog.Cache.Forget(q)
	if s.e.catalog.Cache.Get(q.Ref) != nil {
		t.Error("the queue that has gone is still known")
	}
}
