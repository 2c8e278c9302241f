package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func placementTests() []test {
	return []test{
		{"IsFoundByNamespace", []string{"C4.93"}, Options{}, placementFound},
		{"ChangeNeedsTheCurrentVersion", []string{"C4.93"}, Options{}, placementVersions},
		{"ListIsPaged", []string{"C4.93"}, Options{}, placementList},
		{"ChangesAreReported", []string{"C4.92", "C4.93"}, Options{}, placementTold},
		{"InvalidPlacementsAreRefused", []string{"C4.93", "C13.1"}, Options{}, placementBad},
	}
}

// placer returns the engine's placer. It skips the test if the engine does not own its storage.
func (s *scene) placer() contract.Placer {
	s.Helper()
	p, ok := s.registry().(contract.Placer)
	if !ok {
		s.Skip("this engine stores no placements")
	}
	return p
}

func (s *scene) place(p contract.Placement) contract.Placement {
	s.Helper()
	s.must("put", s.placer().PutPlacement(s.ctx, p))
	got, err := s.placer().FindPlacement(s.ctx, p.Namespace)
	s.must("find", err)
	return got
}

func placementFound(s *scene) {
	_, err := s.placer().FindPlacement(s.ctx, "a")
	s.refused("find of an unknown namespace", err, duly.CodeNotFound)
	for _, want := range []contract.Placement{
		{Namespace: "a", Pool: "orders"},
		{Namespace: "-b", Pool: "x.1", From: "default", Phase: contract.Preparing, Since: s.now(),
			Former: []string{"y", "z-2"}},
		{Namespace: "c", Pool: "default", From: "orders", Phase: contract.Draining, Since: s.now().Add(time.Hour)},
		{Pool: "orders"},
	} {
		// The engine sets the version, and the default namespace has a name.
		got := s.place(want)
		want.Version, want.Namespace = 1, contract.NamespaceOr(want.Namespace)
		if !want.Since.IsZero() {
			sameTime(s, "since", got.Since, want.Since)
		}
		got.Since = want.Since
		same(s, "the placement", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
}

func placementVersions(s *scene) {
	first := s.place(contract.Placement{Namespace: "a", Pool: "orders"})
	s.refused("a second placement without a version", s.placer().PutPlacement(s.ctx,
		contract.Placement{Namespace: "a", Pool: "other"}), duly.CodeConflict)
	second := first
	second.From, second.Pool, second.Phase, second.Since = "orders", "other", contract.Draining, s.now()
	second = s.place(second)
	same(s, "its version", second.Version, 2)

	s.refused("a change of an old version", s.placer().PutPlacement(s.ctx, first), duly.CodeConflict)
	ahead := second
	ahead.Version = 7
	s.refused("a change of a later version", s.placer().PutPlacement(s.ctx, ahead), duly.CodeConflict)

	// A refused change stores nothing.
	s.refused("a change of an unknown namespace", s.placer().PutPlacement(s.ctx,
		contract.Placement{Namespace: "b", Pool: "x", Version: 1}), duly.CodeConflict)
	_, err := s.placer().FindPlacement(s.ctx, "b")
	s.refused("find of it", err, duly.CodeNotFound)
	got, err := s.placer().FindPlacement(s.ctx, "a")
	s.must("find", err)
	same(s, "the stored pool", got.Pool, "other")
}

func placementList(s *scene) {
	names := []string{"-", "A", "B1", "b", "c.c"}
	for _, name := range names {
		s.place(contract.Placement{Namespace: name, Pool: "orders"})
	}
	// Pages of every size, and one of the default size.
	for _, limit := range []int{1, 2, 5, 0} {
		p := duly.PageParams{Limit: limit}
		var got []string
		for range 10 {
			page, err := s.placer().Placements(s.ctx, p)
			s.must("list", err)
			for i := range page.Placements {
				got = append(got, page.Placements[i].Namespace)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		same(s, "the names", fmt.Sprint(got), fmt.Sprint(names))
	}

	_, err := s.placer().Placements(s.ctx, duly.PageParams{Cursor: "a/b"})
	s.refused("an invalid cursor", err, duly.CodeInvalid)
	_, err = s.placer().Placements(s.ctx, duly.PageParams{Limit: -1})
	s.refused("an invalid limit", err, duly.CodeInvalid)
}

func placementTold(s *scene) {
	w := s.watch()
	w.forget()
	p := s.place(contract.Placement{Namespace: "a", Pool: "orders"})
	w.notified("a namespace was placed")
	w.forget()
	p.Pool, p.From, p.Phase = "other", "orders", contract.Preparing
	s.place(p)
	w.notified("the namespace moves")
}

func placementBad(s *scene) {
	long := slices.Repeat([]string{"x"}, contract.MaxFormer+1)
	for _, bad := range []contract.Placement{
		{Namespace: "a"}, {Namespace: "a/b", Pool: "x"}, {Namespace: "a", Pool: "-x"}, {Namespace: "a", Pool: "a,b"},
		{Namespace: "a", Pool: "x", From: "x", Phase: contract.Draining}, {Namespace: "a", Pool: "x", From: "y"},
		{Namespace: "a", Pool: "x", From: "y", Phase: "run"}, {Namespace: "a", Pool: "x", Phase: contract.Draining},
		{Namespace: "a", Pool: "x", Former: long}, {Namespace: "a", Pool: "x", Former: []string{""}},
		{Namespace: "a", Pool: "x", Version: -1},
	} {
		s.refused(fmt.Sprintf("%+v", bad), s.placer().PutPlacement(s.ctx, bad), duly.CodeInvalid)
	}
	_, err := s.placer().FindPlacement(s.ctx, "a/b")
	s.refused("an invalid namespace", err, duly.CodeInvalid)
}
