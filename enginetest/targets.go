package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func targetTests() []test {
	return []test{
		{"IsFoundByName", []string{"C16.21"}, Options{}, targetFound},
		{"ChangeNeedsTheCurrentVersion", []string{"C16.21"}, Options{}, targetVersions},
		{"ListIsPaged", []string{"C16.21"}, Options{}, targetList},
		{"ChangesAreReported", []string{"C16.17"}, Options{}, targetChanges},
		{"InvalidTargetsAreRefused", []string{"C16.21", "C13.1"}, Options{}, targetBad},
		{"NumberPerNamespaceIsBounded", []string{"C16.22"}, Options{}, targetBound},
		{"PushQueuesAreListed", []string{"C16.17"}, Options{}, targetQueues},
		{"ChangesOfPushQueuesAreReported", []string{"C16.17"}, Options{}, targetQueueChanges},
	}
}

// targeter returns the engine's targeter. It skips the test if the engine does not own its
// storage.
func (s *scene) targeter() contract.Targeter {
	s.Helper()
	t, ok := s.registry().(contract.Targeter)
	if !ok {
		s.Skip("this engine stores no targets")
	}
	return t
}

func (s *scene) putTarget(t contract.Target) contract.Target {
	s.Helper()
	s.must("put", s.targeter().PutTarget(s.ctx, t))
	got, err := s.targeter().FindTarget(s.ctx, t.Namespace, t.Name)
	s.must("find", err)
	return got
}

func targetFound(s *scene) {
	_, err := s.targeter().FindTarget(s.ctx, "a", "crm")
	s.refused("find of an unknown target", err, duly.CodeNotFound)
	_, err = s.targeter().FindTarget(s.ctx, "a", "")
	s.refused("find of the target without a name", err, duly.CodeNotFound)
	for _, want := range []contract.Target{
		{Namespace: "a", Name: "crm", Settings: []byte("{}")},
		{Namespace: "a", Name: "CRM", Settings: []byte{0, 1, 0xff}},
		{Namespace: "a", Settings: []byte("secret")},
		{Namespace: "b", Name: "crm", Settings: make([]byte, contract.MaxTargetSettings)},
		{Name: "crm", Settings: []byte("default")},
	} {
		got := s.putTarget(want)
		// The engine sets the version, and the default namespace has a name.
		want.Version, want.Namespace = 1, contract.NamespaceOr(want.Namespace)
		same(s, "the target", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}

	s.must("delete", s.targeter().DeleteTarget(s.ctx, "a", "crm"))
	_, err = s.targeter().FindTarget(s.ctx, "a", "crm")
	s.refused("find of what was deleted", err, duly.CodeNotFound)
	s.refused("a second delete", s.targeter().DeleteTarget(s.ctx, "a", "crm"), duly.CodeNotFound)
	got, err := s.targeter().FindTarget(s.ctx, "b", "crm")
	s.must("find in the other namespace", err)
	same(s, "its version", got.Version, 1)
	// A target that is created again starts at version 1.
	same(s, "the version of a target that is created again", s.putTarget(contract.Target{Namespace: "a",
		Name: "crm"}).Version, 1)
}

func targetVersions(s *scene) {
	first := s.putTarget(contract.Target{Namespace: "a", Name: "crm", Settings: []byte("1")})
	put := s.targeter().PutTarget
	s.refused("a second target without a version", put(s.ctx, contract.Target{Namespace: "a", Name: "crm"}),
		duly.CodeConflict)
	second := first
	second.Settings = []byte("2")
	second = s.putTarget(second)
	same(s, "its version", second.Version, 2)

	s.refused("a change of an old version", put(s.ctx, first), duly.CodeConflict)
	ahead := second
	ahead.Version = 7
	s.refused("a change of a later version", put(s.ctx, ahead), duly.CodeConflict)
	s.refused("a change of an unknown target", put(s.ctx, contract.Target{Namespace: "a", Name: "x", Version: 1}),
		duly.CodeConflict)

	got, err := s.targeter().FindTarget(s.ctx, "a", "crm")
	s.must("find", err)
	same(s, "the stored settings", string(got.Settings), "2")
}

func targetList(s *scene) {
	names := []string{"-", "A", "B1", "b", "c.c"}
	for _, name := range names {
		s.putTarget(contract.Target{Namespace: "a", Name: name, Settings: []byte(name)})
	}
	// Neither the target without a name nor that of another namespace is listed.
	s.putTarget(contract.Target{Namespace: "a", Settings: []byte("unnamed")})
	s.putTarget(contract.Target{Namespace: "a0", Name: "other"})
	for _, limit := range []int{1, 2, 5, 0} {
		p := duly.PageParams{Limit: limit}
		var got []string
		for range 10 {
			page, err := s.targeter().Targets(s.ctx, "a", p)
			s.must("list", err)
			for i := range page.Targets {
				got = append(got, page.Targets[i].Name)
				same(s, "the settings", string(page.Targets[i].Settings), page.Targets[i].Name)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		same(s, "the names", fmt.Sprint(got), fmt.Sprint(names))
	}
	_, err := s.targeter().Targets(s.ctx, "a", duly.PageParams{Cursor: "a/b"})
	s.refused("an invalid cursor", err, duly.CodeInvalid)
	_, err = s.targeter().Targets(s.ctx, "a/b", duly.PageParams{})
	s.refused("an invalid namespace", err, duly.CodeInvalid)
}

func targetChanges(s *scene) {
	w := s.watch()
	w.forget()
	t := s.putTarget(contract.Target{Namespace: "a", Name: "crm"})
	w.notified("a target was made")
	w.forget()
	s.putTarget(t)
	w.notified("the target was changed")
	w.forget()
	s.must("delete", s.targeter().DeleteTarget(s.ctx, "a", "crm"))
	w.notified("the target was deleted")
}

func targetBad(s *scene) {
	for _, bad := range []contract.Target{
		{Namespace: "a/b", Name: "x"}, {Namespace: "a", Name: "a/b"}, {Namespace: "a", Name: ".x"},
		{Namespace: "a", Name: strings.Repeat("x", duly.MaxName+1)},
		{Namespace: "a", Name: "x", Version: -1},
	} {
		s.refused(fmt.Sprintf("%+v", bad), s.targeter().PutTarget(s.ctx, bad), duly.CodeInvalid)
	}
	large := contract.Target{Namespace: "a", Name: "x", Settings: make([]byte, contract.MaxTargetSettings+1)}
	s.refused("large settings", s.targeter().PutTarget(s.ctx, large), duly.CodeTooLarge)
	_, err := s.targeter().FindTarget(s.ctx, "a", "a/b")
	s.refused("an invalid name", err, duly.CodeInvalid)
}

func targetBound(s *scene) {
	if testing.Short() {
		s.Skip("a short run looks for data races, and 10 000 puts show no more of them than one")
	}
	put := s.targeter().PutTarget
	const callers = 16 // concurrent calls share a commit or a round trip
	s.each(callers, func(s *scene, first int) {
		for i := first; i < contract.MaxTargets; i += callers {
			s.must("put", put(s.ctx, contract.Target{Namespace: "a", Name: fmt.Sprint(i)}))
		}
	})
	s.refused("one more", put(s.ctx, contract.Target{Namespace: "a", Name: "more"}), duly.CodeFull)
	// The bound concerns new names in this namespace only.
	s.refused("an existing target", put(s.ctx, contract.Target{Namespace: "a", Name: "0"}), duly.CodeConflict)
	s.must("the target without a name", put(s.ctx, contract.Target{Namespace: "a"}))
	s.must("one of another namespace", put(s.ctx, contract.Target{Namespace: "b", Name: "more"}))
	s.must("delete", s.targeter().DeleteTarget(s.ctx, "a", "0"))
	s.must("one more after a delete", put(s.ctx, contract.Target{Namespace: "a", Name: "more"}))
}

// pushQueues returns all push queues, read in pages of this size.
func (s *scene) pushQueues(limit int) (all []string) {
	s.Helper()
	p := duly.PageParams{Limit: limit}
	for range 100 {
		page, err := s.targeter().PushQueues(s.ctx, p)
		s.must("push queues", err)
		for _, q := range page.Queues {
			all = append(all, q.String())
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return all
		}
	}
	s.Fatal("the list of push queues has more than 100 pages")
	return nil
}

func targetQueues(s *scene) {
	same(s, "the push queues of an empty store", len(s.pushQueues(0)), 0)
	s.on("b").pushQueue()
	// Only three of the queues of the default namespace are push queues.
	s.on("pull").push(duly.Job{})
	s.on("a").push(duly.Job{Callback: hookURL})
	s.in("other").on("a").push(duly.Job{Callback: hookURL})
	s.on("c").pushQueue()
	want := []string{"default/a", "default/b", "default/c", "other/a"}
	for _, limit := range []int{0, 1, 2} {
		same(s, "the push queues", fmt.Sprint(s.pushQueues(limit)), fmt.Sprint(want))
	}

	// A queue leaves the list when it becomes a pull queue or is destroyed.
	s.on("b").configure(duly.QueueConfig{Delivery: duly.DeliverPull})
	s.must("destroy", s.Engine.Destroy(s.ctx, duly.Q("a")))
	s.on("pull").take()
	same(s, "the push queues", fmt.Sprint(s.pushQueues(0)), "[default/c other/a]")
	_, err := s.targeter().PushQueues(s.ctx, duly.PageParams{Cursor: "x"})
	s.refused("an invalid cursor", err, duly.CodeInvalid)
}

func targetQueueChanges(s *scene) {
	w := s.watch()
	w.forget()
	s.push(duly.Job{Callback: hookURL})
	w.notified("a job has created a push queue")
	w.forget()
	s.on("other").pushQueue()
	w.notified("a push queue was made")
	w.forget()
	s.on("other").configure(duly.QueueConfig{Push: duly.PushConfig{URL: hookTarget}})
	w.notified("the URL of a push queue was changed")
	w.forget()
	s.on("other").configure(duly.QueueConfig{Delivery: duly.DeliverPull})
	w.notified("a push queue became a pull queue")
	w.forget()
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	w.notified("a push queue was destroyed")
}
