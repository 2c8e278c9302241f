package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func findTests() []test {
	return []test{
		{"ReturnsTheJobOfEveryQueue", []string{"C4.109"}, Options{}, findInQueues},
		{"ReturnsJobsAsGetDoes", []string{"C4.109", "C4.60", "C2.24"}, Options{}, findAsGet},
		{"FindsAJobByItsNumber", []string{"C4.109"}, Options{}, findByNumber},
		{"OfAnUnknownIDIsNotFound", []string{"C4.110"}, Options{}, findNothing},
		{"ReturnsAtMostAHundredJobs", []string{"C4.111"}, Options{}, findMany},
		{"StopsAtTheBoundOfBodies", []string{"C4.111"}, Options{}, findLarge},
		{"RefusesBadParameters", []string{"C4.109", "C13.2"}, Options{}, findInput},
	}
}

// find returns the result of a Find in the scene's namespace.
func (s *scene) find(id string) (contract.Found, error) {
	s.Helper()
	return contract.FinderOf(s.Engine).Find(s.ctx, s.namespace, id)
}

// finds reports an error unless a Find returns the job of exactly these queues, each as Get returns it.
func (s *scene) finds(id string, queues ...string) {
	s.Helper()
	found, err := s.find(id)
	if len(queues) == 0 {
		s.refused("find of "+id, err, duly.CodeNotFound)
		return
	}

	s.must("find of "+id, err)
	same(s, "more of "+id, found.More, false)
	var names []string
	for _, j := range found.Jobs {
		names = append(names, j.Queue)
		same(s, "the job of "+j.Queue, infoText(j), infoText(s.on(j.Queue).get(id)))
	}
	s.sameIDs("the queues with "+id, names, queues)
}

func findInQueues(s *scene) {
	for _, name := range []string{"c", "a", "d", "b"} {
		s.on(name).push(duly.Job{ID: "other-" + name})
	}
	s.on("c").push(duly.Job{ID: "x", Body: []byte("of c"), Headers: map[string]string{"h": "v"}})
	s.on("a").push(duly.Job{ID: "x", Delay: time.Hour})
	s.in("other").on("a").push(duly.Job{ID: "x"})
	s.in("other").on("e").push(duly.Job{ID: "x"})
	s.finds("x", "a", "c")
	s.finds("other-b", "b")
	s.in("other").finds("x", "a", "e")

	s.must("delete", s.Engine.Delete(s.ctx, s.on("a").ref(), "x"))
	s.finds("x", "c")
	s.must("destroy", s.Engine.Destroy(s.ctx, s.on("c").ref()))
	s.finds("x")
	// The queue is created again under the same name.
	s.on("c").push(duly.Job{ID: "x", Priority: 3})
	s.on("b").push(duly.Job{ID: "x"})
	s.on("b").configure(duly.QueueConfig{MaxJobs: 5})
	s.finds("x", "b", "c")
}

func findAsGet(s *scene) {
	var queues []string
	for _, state := range duly.States {
		q := s.on(state.String())
		id, _ := q.reach(state)
		// Every job has the same ID.
		queues = append(queues, state.String())
		slices.Sort(queues)
		s.finds(id, queues...)
	}

	// A due job is ready before any step. A job whose TTL is over is not found.
	s.on("due").push(duly.Job{ID: "due", Delay: time.Second})
	s.on("over").push(duly.Job{ID: "due", TTL: time.Second})
	s.finds("due", "due", "over")
	s.Advance(2 * time.Second)
	s.finds("due", "due")
	same(s, "the state of the due job", s.on("due").get("due").State, duly.StateReady)
}

func findByNumber(s *scene) {
	id := s.on("a").push(duly.Job{})
	s.on("b").push(duly.Job{})
	s.finds(id, "a")
	// The number of one queue is an ordinary ID in another one.
	s.on("c").push(duly.Job{ID: id})
	s.finds(id, "a", "c")
}

func findNothing(s *scene) {
	s.finds("x") // the namespace has no queue
	s.on("a").push(duly.Job{ID: "y"})
	s.on("b").configure(duly.QueueConfig{MaxJobs: 5})
	s.finds("x")
	s.in("other").finds("y")
	s.on("a").ack(s.on("a").take())
	s.finds("y")
}

func findMany(s *scene) {
	for i := range contract.MaxFound + 3 {
		q := s.on(fmt.Sprintf("q%03d", i))
		q.push(duly.Job{ID: "x"})
		// The queues in the middle do not have the second job.
		if i < 50 || i > 52 {
			q.push(duly.Job{ID: "y"})
		}
	}

	found, err := s.find("x")
	s.must("find", err)
	same(s, "the number of jobs", len(found.Jobs), contract.MaxFound)
	same(s, "more", found.More, true)
	for i, j := range found.Jobs {
		same(s, "a queue", j.Queue, fmt.Sprintf("q%03d", i))
	}

	found, err = s.find("y")
	s.must("find of as many as fit", err)
	same(s, "the number of jobs that fit", len(found.Jobs), contract.MaxFound)
	same(s, "more than fit", found.More, false)
}

func findLarge(s *scene) {
	body := make([]byte, duly.DefaultMaxBody)
	n := duly.MaxBatchBytes / len(body)
	for i := range n + 1 {
		s.on(fmt.Sprintf("q%02d", i)).push(duly.Job{ID: "x", Body: body})
	}

	found, err := s.find("x")
	s.must("find", err)
	same(s, "the number of jobs", len(found.Jobs), n)
	same(s, "more", found.More, true)
	for _, j := range found.Jobs {
		same(s, "the size of a body", len(j.Body), len(body))
	}
}

func findInput(s *scene) {
	for _, id := range []string{"", "a b", "a/b"} {
		_, err := s.find(id)
		s.names("find of "+id, err, duly.CodeInvalid, "id")
	}
	_, err := contract.FinderOf(s.Engine).Find(s.ctx, "A b", "x")
	s.names("find in a bad namespace", err, duly.CodeInvalid, "namespace")
}
