package enginetest

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly"
)

func listKeyTests() []test {
	one := Options{OneShard: true}
	return []test{
		{"KeyListsOnlyItsBlockedJobs", []string{"C4.150"}, one, listKeyOnly},
		{"KeyIsFoundInItsShard", []string{"C4.150"}, Options{}, listKeyShards},
		{"KeyContinuesAtACursor", []string{"C4.150", "C4.115"}, one, listKeyCursor},
		{"RefusesABadKey", []string{"C4.151", "C13.2"}, Options{}, listKeyRefused},
	}
}

// ofKey returns the parameters of the list of a key.
func ofKey(key string, newest bool) duly.ListParams {
	return duly.ListParams{State: duly.StateBlocked, Key: key, Newest: newest}
}

func listKeyOnly(s *scene) {
	for _, key := range []string{"a", "b", "aa", "ab", "abc", "ä"} {
		for i := range 5 {
			s.push(duly.Job{ID: fmt.Sprintf("%x-%d", key, i), OrderKey: key, Priority: i % 2})
		}
	}
	for _, key := range []string{"a", "b", "aa", "ab", "abc", "ä"} {
		// The first job holds the key.
		var want []string
		for _, i := range []int{1, 3, 2, 4} {
			want = append(want, fmt.Sprintf("%x-%d", key, i))
		}
		for _, limit := range []int{1, 2, 3, 4, 5, 100} {
			s.sameIDs(fmt.Sprintf("the jobs of %s in pages of %d", key, limit), s.pageIDs(ofKey(key, false), limit), want)
			s.sameIDs("the jobs in reverse", s.pageIDs(ofKey(key, true), limit), backwards(want))
		}
	}
	for _, key := range []string{"c", "aaa", "\U0001f600", strings.Repeat("a", duly.MaxKey)} {
		same(s, "the number of jobs of "+key, len(s.pages(ofKey(key, false), nil)), 0)
		same(s, "the number in reverse", len(s.pages(ofKey(key, true), nil)), 0)
	}
	same(s, "the number of jobs of an unknown queue", len(s.on("unknown").pages(ofKey("a", false), nil)), 0)
}

func listKeyShards(s *scene) {
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("key", i))
	}
	s.lines("j", 4, keys...)
	for i, key := range keys {
		want := []string{fmt.Sprintf("j-%d-1", i), fmt.Sprintf("j-%d-2", i), fmt.Sprintf("j-%d-3", i)}
		s.sameIDs("the jobs of "+key, s.pageIDs(ofKey(key, false), 2), want)
		s.sameIDs("the jobs in reverse", s.pageIDs(ofKey(key, true), 2), backwards(want))
	}
}

// listKeyCursor uses the cursors of a list of all keys. The list of a key begins at the later of both places.
func listKeyCursor(s *scene) {
	s.lines("j", 3, "a", "b", "c")
	after := func(n int) string {
		s.Helper()
		page, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateBlocked, PageParams: duly.PageParams{Limit: n}})
		s.must("list", err)
		return page.Next
	}
	for n, want := range map[int][]string{1: {"j-1-1", "j-1-2"}, 2: {"j-1-1", "j-1-2"}, 3: {"j-1-2"}, 4: nil, 5: nil} {
		p := ofKey("b", false)
		p.Cursor = after(n)
		s.sameIDs(fmt.Sprintf("the jobs of b after %d jobs", n), idsOf(s.pages(p, nil)), want)
	}
	for n, want := range map[int][]string{1: nil, 2: nil, 3: nil, 4: {"j-1-1"}, 5: {"j-1-2", "j-1-1"}} {
		p := ofKey("b", true)
		p.Cursor = after(n)
		s.sameIDs(fmt.Sprintf("the jobs of b before the job %d", n), idsOf(s.pages(p, nil)), want)
	}
}

func listKeyRefused(s *scene) {
	s.lines("j", 2, "a")
	for _, state := range duly.States {
		if state == duly.StateBlocked {
			continue
		}
		_, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: state, Key: "a"})
		s.names("a key with the state "+state.String(), err, duly.CodeInvalid, "key")
	}
	for _, key := range []string{"\x00", "a\n", "\xff", strings.Repeat("a", duly.MaxKey+1)} {
		_, err := s.Engine.List(s.ctx, s.ref(), ofKey(key, false))
		s.names(fmt.Sprintf("the key %.20q", key), err, duly.CodeInvalid, "key")
	}
	p := ofKey("a", false)
	p.From = s.now()
	_, err := s.Engine.List(s.ctx, s.ref(), p)
	s.names("a key and a moment", err, duly.CodeInvalid, "from")
}
