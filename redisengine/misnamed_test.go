package redisengine_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// misnamed are entries of a list of queues that are no names of queues. They
// sort before, between and behind those that are.
var misnamed = []string{"", "\x1b[31m", "a/b", "q/0}:config", "zz zz", "é"}

// misname writes them into the namespace's list: some as a name alone, some as a
// configuration alone, and some as both.
func misname(r *damageRig) {
	key := func(of string) string { return r.prefix + ":{default}:" + of }
	config := r.do("HGET", key("configs"), damageQueue.Name)
	for i, name := range misnamed {
		if i%3 != 1 {
			r.do("ZADD", key("queues"), 0, name)
		}
		if i%3 != 0 {
			r.do("HSET", key("configs"), name, []any{config, "no configuration"}[i/3])
		}
	}
}

// foundMisnamed looks whether a check has told of each that is no name, and of
// nothing else.
func foundMisnamed(t *testing.T, report contract.CheckReport, repaired bool, kind, of string) {
	t.Helper()
	var found []string
	for _, f := range report.Faults {
		if f.Kind != kind || f.Repaired != repaired || kind == "namespace_unreadable" && f.Queue != (duly.QueueRef{}) {
			t.Errorf("a check finds %+v", f)
		}
		quoted, _, _ := strings.Cut(f.Detail, " can't be the name of "+of)
		name, err := strconv.Unquote(quoted)
		must(t, err)
		found = append(found, name)
	}
	if slices.Sort(found); !slices.Equal(found, slices.Sorted(slices.Values(misnamed))) {
		t.Errorf("a check finds %q", found)
	}
}

// What somebody else has written into a namespace's list and is no name of a
// queue is dropped by a repair, and made no queue of.
func TestCheckDropsWhatIsNoName(t *testing.T) {
	t.Parallel()
	r := newRuin(t, 1, 1)
	misname(r)
	for _, repair := range []bool{false, true} {
		report := r.check(repair)
		foundMisnamed(t, report, repair, "queue_unreadable", "a queue")
	}
	r.sound()
	for _, of := range []string{"HKEYS", "ZRANGE"} {
		args := map[string][]any{"HKEYS": {of, r.prefix + ":{default}:configs"}, "ZRANGE": {of, r.prefix + ":{default}:queues", 0, -1}}[of]
		if left := r.do(args...).([]any); len(left) != 1 || left[0] != damageQueue.Name {
			t.Errorf("the list has %q", left)
		}
	}
	for _, key := range r.do("KEYS", r.prefix+":*").([]any) {
		for _, name := range []string{"a/b", "q/0}", "zz zz"} {
			if key == r.prefix+":{default/"+name+"/0}:config" {
				t.Errorf("a queue was made: %q", key)
			}
		}
	}
	r.drain()
}

// What somebody else has written into the list of namespaces and is no name of one
// is told of, and dropped by a repair; those that are stay.
func TestCheckDropsWhatIsNoNamespace(t *testing.T) {
	t.Parallel()
	r := newRuin(t, 1, 1)
	key := r.prefix + ":namespaces"
	for _, name := range misnamed {
		r.do("ZADD", key, 0, name)
	}
	for _, repair := range []bool{false, true} {
		report := r.check(repair)
		if report.Jobs == 0 {
			t.Error("the check looks at no job")
		}
		foundMisnamed(t, report, repair, "namespace_unreadable", "a namespace")
	}
	r.sound()
	if left := r.do("ZRANGE", key, 0, -1).([]any); len(left) != 1 || left[0] != "default" {
		t.Errorf("the list has %q", left)
	}
	r.drain()
}

// C4.94: what is no name of a queue, or of a namespace, takes no queue with it
// where queues are listed, told of or swept, whatever the size of a page.
func TestWhatIsNoNameKeepsNoQueueBack(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	first := at(t, withPrefix(server.URL(), prefix), c)
	queues := []string{"a", "m", "z"}
	for _, name := range queues {
		pushOne(t, first, duly.Job{Queue: name, Delay: time.Minute})
	}
	r := &damageRig{T: t, server: server, prefix: prefix}
	config := server.Must("HGET", prefix+":{default}:configs", "a")
	for _, name := range misnamed {
		server.Must("ZADD", prefix+":{default}:queues", 0, name)
		r.do("HSET", prefix+":{default}:configs", name, config)
		server.Must("ZADD", prefix+":namespaces", 0, name)
	}
	c.Advance(time.Hour)
	for _, e := range []*redisengine.Engine{first, at(t, withPrefix(server.URL(), prefix), c)} {
		must(t, e.Sweep(t.Context()))
		for limit := 1; limit <= 10; limit++ {
			var listed, told []string
			p := duly.PageParams{Limit: limit}
			for more := true; more; more = p.Cursor != "" {
				page, err := e.Queues(t.Context(), "", p)
				must(t, err)
				listed, p.Cursor = append(listed, page.Names...), page.Next
			}
			for more := true; more; more = p.Cursor != "" {
				page, err := e.Survey(t.Context(), "", p)
				must(t, err)
				for _, q := range page.Queues {
					if q.Err != nil || q.Stats.Sizes != (duly.Sizes{Ready: 1}) {
						t.Errorf("%q has %+v", q.Name, q)
					}
					told = append(told, q.Name)
				}
				p.Cursor = page.Next
			}
			if !slices.Equal(listed, queues) || !slices.Equal(told, queues) {
				t.Errorf("with a limit of %d %q are listed, and %q told of", limit, listed, told)
			}
			page, err := e.Namespaces(t.Context(), p)
			if err != nil || !slices.Equal(page.Names, []string{"default"}) {
				t.Errorf("with a limit of %d there are the namespaces %q, %v", limit, page.Names, err)
			}
		}
	}
}

// A page of names that are none, as many as a walk reads at once, ends no walk.
func TestManyThatAreNoNames(t *testing.T) {
	t.Parallel()
	r := newRuin(t, 1, 1)
	args := []any{"ZADD", r.prefix + ":{default}:queues"}
	for i := range 2*duly.MaxBatch + 1 {
		args = append(args, 0, "!"+string(rune('a'+i%26))+time.Duration(i).String())
	}
	r.do(args...)
	page, err := r.e.Queues(t.Context(), "", duly.PageParams{Limit: 1})
	if err != nil || !slices.Equal(page.Names, []string{damageQueue.Name}) || page.Next != "" {
		t.Errorf("lists %+v, %v", page, err)
	}
	must(t, r.e.Sweep(t.Context()))
	if report := r.check(true); report.Repaired != 2*duly.MaxBatch+1 || report.Jobs == 0 {
		t.Errorf("a repair of %d jobs dropped %d names", report.Jobs, report.Repaired)
	}
	r.sound()
}
