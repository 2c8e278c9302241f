package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine"
)

// TestFullDiskDrainsAndFillsAgain fills a file system of 20 MB with jobs of 20 kB and works on
// the full disk. It kills the process, drains the rest in a new process, and fills the same file
// system again.
//
// C9.11, C9.12
func TestFullDiskDrainsAndFillsAgain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and this test is about what a disk keeps")
	}
	proctest.NeedRoot(t)
	rounds := 1
	if proctest.Long() {
		rounds = 50
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	p := proctest.Start(t, proctest.Options{Prepare: func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	}}, "refill", t.TempDir(), strconv.Itoa(rounds), strconv.FormatUint(seed, 10))
	err := p.Wait(time.Duration(rounds+1) * time.Minute)

	done := 0
	for _, line := range p.Lines() {
		t.Log(line)
		switch {
		case strings.HasPrefix(line, "BAD "):
			t.Fail()
		case strings.HasPrefix(line, "round "):
			done++
		}
	}
	if err != nil || done != rounds {
		t.Fatalf("%d of %d rounds, %v", done, rounds, err)
	}
}

// runRefill mounts a tmpfs, which ends with the process, and runs the rounds.
func runRefill(args []string) error {
	if err := mountTmpfs(args[0], "20m"); err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}

	f := &refill{path: filepath.Join(args[0], "duly.db"), r: rand.New(rand.NewPCG(seed, 0)), state: map[string]string{}}
	for i := range rounds {
		if err := f.round(i); err != nil {
			return err
		}
	}
	return nil
}

// refill is the ledger of the rounds. The processes print each call before and after they make
// it, so an interrupted call is known to have no result.
type refill struct {
	path  string
	r     *rand.Rand
	state map[string]string // of each job: storing, stored, ending or ended
}

func (f *refill) round(i int) error {
	kill := f.r.IntN(120)
	filled, err := f.child("fill", kill)
	if err != nil {
		return err
	}
	drained, err := f.child("drain", -1)
	if err != nil {
		return err
	}

	lost := 0
	for id, state := range f.state {
		if state == "stored" {
			fmt.Printf("BAD job %s is lost\n", id)
			lost++
		}
	}
	clear(f.state)
	fmt.Printf("round %d: %d jobs filled the disk, killed after %d lines, %d drained, lost %d\n", i, filled, kill,
		drained, lost)
	return nil
}

// child runs a role on the store until it ends. With kill, it kills the role that many lines
// after the disk was full. It returns the number of jobs that the child has counted.
func (f *refill) child(role string, kill int) (count int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, f.path, role)
	cmd.Env, cmd.Stderr = proctest.Environ("refillstore"), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}

	full := false
	for in := bufio.NewScanner(out); in.Scan(); {
		verb, id, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "BAD", "note":
			fmt.Println(in.Text())
		case "full":
			full = true
			count, _ = strconv.Atoi(id)
		case "drained":
			count, _ = strconv.Atoi(id)
		default:
			f.say(verb, id)
		}
		if full && kill >= 0 {
			if kill--; kill < 0 {
				err = cmd.Process.Kill()
			}
		}
	}
	if ended := cmd.Wait(); ended != nil && kill >= 0 {
		return count, fmt.Errorf("%s: %w", role, ended)
	}
	return count, err
}

// say enters one line in the ledger.
func (f *refill) say(verb, id string) {
	switch was := f.state[id]; {
	case verb == "got" && was == "":
		fmt.Printf("BAD job %s was delivered and never pushed\n", id)
	case verb == "got" && was == "ended":
		fmt.Printf("BAD job %s was delivered after its end was answered\n", id)
	case verb != "got":
		f.state[id] = verb
	}
}

// runRefillStore opens the store and fills or drains it.
func runRefillStore(args []string) error {
	engine, err := openStore(args[0])
	if err != nil {
		fmt.Println("BAD the store does not open:", err)
		return err
	}
	s := &refillStore{engine}
	if args[1] == "fill" {
		s.fill()
		s.operate()
		s.drain(true)
		select {} // wait until the test kills the process
	}
	s.drain(false)
	s.pushAgain()
	return engine.Close()
}

type refillStore struct{ engine *sqliteengine.Engine }

func (s *refillStore) bad(format string, args ...any) { fmt.Printf("BAD "+format+"\n", args...) }

// push pushes a job and returns its ID.
func (s *refillStore) push() (string, error) {
	j := duly.Job{Queue: theQueue.Name, Body: make([]byte, 20_000), Lease: time.Second}
	j.ID, j.Made = duly.MakeID(&j), true
	fmt.Println("storing", j.ID)
	results, err := s.engine.Push(context.Background(), []duly.Job{j})
	if err == nil {
		err = results[0].Err
	}
	if err == nil {
		fmt.Println("stored", j.ID)
	}
	return j.ID, err
}

// fill pushes until the disk is full: several pushes in a row are refused, and the engine
// reports that it accepts no more. Each of these calls may free some space for the next one.
func (s *refillStore) fill() {
	for pushed, refused := 0, 0; ; {
		_, err := s.push()
		if err == nil {
			pushed, refused = pushed+1, 0
			continue
		}

		if refused++; refused >= 3 && errors.Is(err, duly.ErrFull) {
			err = s.engine.Accepts(context.Background())
			if errors.Is(err, duly.ErrFull) {
				fmt.Println("full", pushed)
				return
			}
		}
		if err != nil && !errors.Is(err, duly.ErrFull) {
			s.bad("a push on a full disk: %v", err)
			return
		}
	}
}

// operate calls what must still work on a full disk.
func (s *refillStore) operate() {
	ctx := context.Background()
	ds := s.reserve(3)
	if len(ds) < 3 {
		s.bad("%d of 3 jobs were reserved on the full disk", len(ds))
		return
	}
	check := func(what string, errs []error, err error) {
		if err = errors.Join(append(errs, err)...); err != nil {
			s.bad("%s on a full disk: %v", what, err)
		}
	}

	errs, err := s.engine.Extend(ctx, "", []duly.Receipt{ds[0].Receipt}, time.Second)
	check("extend", errs, err)
	errs, err = s.engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Nack,
		Error: "the disk is full"}})
	check("nack", errs, err)
	errs, err = s.engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[1].Receipt, As: duly.Release}})
	check("release", errs, err)

	fmt.Println("ending", ds[2].ID)
	if err := s.engine.Delete(ctx, theQueue, ds[2].ID); err != nil {
		s.bad("delete on a full disk: %v", err)
	}
	fmt.Println("ended", ds[2].ID)
	page, err := s.engine.List(ctx, theQueue, duly.ListParams{State: duly.StateReady,
		PageParams: duly.PageParams{Limit: 2}})
	for i := range page.Jobs {
		fmt.Println("ending", page.Jobs[i].ID)
	}
	if err == nil {
		_, err = s.engine.Purge(ctx, theQueue, duly.StateReady, len(page.Jobs))
	}
	if err != nil {
		s.bad("purge on a full disk: %v", err)
	}
}

func (s *refillStore) reserve(n int) []duly.Delivery {
	ds, err := s.engine.Reserve(context.Background(), duly.ReserveParams{Queues: []string{theQueue.Name}, Max: n})
	if err != nil {
		s.bad("reserve on a full disk: %v", err)
	}
	for i := range ds {
		fmt.Println("got", ds[i].ID)
	}
	return ds
}

// drain reserves and acknowledges jobs until the queue is empty. With leave it leaves a few jobs,
// because the process is to be killed.
func (s *refillStore) drain(leave bool) {
	ctx, count, begun := context.Background(), 0, time.Now()
	for time.Since(begun) < time.Minute {
		ds := s.reserve(20)
		for i := range ds {
			fmt.Println("ending", ds[i].ID)
			errs, err := s.engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[i].Receipt, As: duly.Ack}})
			err = errors.Join(append(errs, err)...)
			if errors.Is(err, duly.ErrLeaseLost) { // happens on a busy machine; the job is delivered again
				fmt.Println("stored", ds[i].ID)
				continue
			}
			if err != nil {
				s.bad("ack on a full disk: %v", err)
				return
			}
			fmt.Println("ended", ds[i].ID)
			count++
		}
		if len(ds) > 0 {
			continue
		}
		stats, err := s.engine.Stats(ctx, theQueue)
		if err != nil {
			s.bad("stats on a full disk: %v", err)
		}
		if stats.Sizes == (duly.Sizes{}) {
			fmt.Println("note drained in", time.Since(begun).Round(time.Millisecond))
			fmt.Println("drained", count)
			return
		}
		if leave { // only the nacked job is left
			return
		}
		if _, err := s.engine.Wait(ctx, duly.WaitParams{Queues: []string{theQueue.Name}, Timeout: time.Second}); err != nil {
			s.bad("wait on a full disk: %v", err)
		}
	}
	s.bad("the queue was not drained in a minute")
}

// pushAgain checks that a push succeeds within ten seconds once the queue is empty. The promise is
// one second.
func (s *refillStore) pushAgain() {
	begun := time.Now()
	for {
		id, err := s.push()
		if err == nil {
			fmt.Println("ended", id) // the purge below deletes it
			break
		}
		if time.Since(begun) > 10*time.Second {
			s.bad("no push 10s after the queue was drained: %v", err)
			return
		}
		time.Sleep(10 * time.Millisecond) // a disk has no clock that a test could move
	}
	fmt.Printf("note pushing again %v after the queue was empty\n", time.Since(begun).Round(time.Millisecond))
	if _, err := s.engine.Purge(context.Background(), theQueue, duly.StateReady, 0); err != nil {
		s.bad("purge: %v", err)
	}
	if err := s.engine.Accepts(context.Background()); err != nil {
		s.bad("the engine says of a disk with room: %v", err)
	}
	report, err := s.engine.Check(context.Background(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		s.bad("Check: %v, %+v", err, report.Faults)
	}
}
