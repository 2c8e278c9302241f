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

// misnamed are entries of a list of queues that are not valid names. They sort before, between
// and after the valid ones.
var misnamed = []string{"", "\x1b[31m", "a/b", "q/0}:config", "zz zz", "é"}

// misname writes the invalid names to the namespace's list: some with only a name, some with only a
// configuration, some with both.
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

// foundMisnamed checks that a check has reported exactly the invalid names.
func foundMisnamed(t *testing.T, report contract.CheckReport, repaired bool, kind, of string) {
	t.Helper()
	var found []string
	for _, f := range report.Faults {
		if f.Kind != kind || f.Repaired != repaired || kind == "namespace_unreadable" && f.Queue != (duly.QueueRef{}) {
			t.Errorf("Check found %+v", f)
		}
		quoted, _, _ := strings.Cut(f.Detail, " can't be the name of "+of)
		name, err := strconv.Unquote(quoted)
		must(t, err)
		found = append(found, name)
	}
	if slices.Sort(found); !slices.Equal(found, slices.Sorted(slices.Values(misnamed))) {
		t.Errorf("Check found %q", found)
	}
}

// TestCheckDropsInvalidQueueNames checks that a repair drops invalid names from a namespace's
// list and creates no queues for them.
func TestCheckDropsInvalidQueueNames(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	misname(r)
	for _, repair := range []bool{false, true} {
		report := r.check(repair)
		foundMisnamed(t, report, repair, "queue_unreadable", "a queue")
	}
	r.sound()
	for _, of := range []string{"HKEYS", "ZRANGE"} {
		args := map[string][]any{"HKEYS": {of, r.prefix + ":{default}:configs"},
			"ZRANGE": {of, r.prefix + ":{default}:queues", 0, -1}}[of]
		if left := r.do(args...).([]any); len(left) != 1 || left[0] != damageQueue.Name {
			t.Errorf("the list has %q", left)
		}
	}
	for _, key := range r.do("KEYS", r.prefix+":*").([]any) {
		for _, name := range []string{"a/b", "q/0}", "zz zz"} {
			if key == r.prefix+":{default/"+name+"/0}:config" {
				t.Errorf("a queue was created: %q", key)
			}
		}
	}
	r.drain()
}

// TestCheckDropsInvalidNamespaces checks that Check reports invalid names in the list of
// namespaces and that a repair drops them. Valid ones stay.
func TestCheckDropsInvalidNamespaces(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	key := r.prefix + ":namespaces"
	for _, name := range misnamed {
		r.do("ZADD", key, 0, name)
	}
	for _, repair := range []bool{false, true} {
		report := r.check(repair)
		if report.Jobs == 0 {
			t.Error("Check reads no job")
		}
		foundMisnamed(t, report, repair, "namespace_unreadable", "a namespace")
	}
	r.sound()
	if left := r.do("ZRANGE", key, 0, -1).([]any); len(left) != 1 || left[0] != "default" {
		t.Errorf("the list has %q", left)
	}
	r.drain()
}

// TestInvalidNamesHideNoQueue checks that invalid names don't hide queues from lists, surveys or
// sweeps, whatever the page size (C4.94).
func TestInvalidNamesHideNoQueue(t *testing.T) {
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
			var listed, surveyed []string
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
					surveyed = append(surveyed, q.Name)
				}
				p.Cursor = page.Next
			}
			if !slices.Equal(listed, queues) || !slices.Equal(surveyed, queues) {
				t.Errorf("with a limit of %d Queues returned %q, and Survey returned %q", limit, listed, surveyed)
			}
			page, err := e.Namespaces(t.Context(), p)
			if err != nil || !slices.Equal(page.Names, []string{"default"}) {
				t.Errorf("with a limit of %d Namespaces returned %q, %v", limit, page.Names, err)
			}
		}
	}
}

// TestManyInvalidNames checks that a full page of invalid names does not end a listing.
func TestManyInvalidNames(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	args := []any{"ZADD", r.prefix + ":{default}:queues"}
	for i := range 2*duly.MaxBatch + 1 {
		args = append(args, 0, "!"+string(rune('a'+i%26))+time.Duration(i).String())
	}
	r.do(args...)
	page, err := r.e.Queues(t.Context(), "", duly.PageParams{Limit: 1})
	if err != nil || !slices.Equal(page.Names, []string{damageQueue.Name}) || page.Next != "" {
		t.Errorf("Queues returned %+v, %v", page, err)
	}
	must(t, r.e.Sweep(t.Context()))
	if report := r.check(true); report.Repaired != 2*duly.MaxBatch+1 || report.Jobs == 0 {
		t.Errorf("a repair of %d jobs dropped %d names", report.Jobs, report.Repaired)
	}
	r.sound()
}
