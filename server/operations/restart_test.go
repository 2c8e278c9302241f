package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/server/operations/record"
)

// C14.99, P9.3: a process is killed at every kind of moment: before a call, and between a call and its answer. After
// Continue each job was changed once, none is left, and the counts are true.
func TestKilledOperationContinues(t *testing.T) {
	byIDs := func(ids []string) contract.NewOperation {
		return contract.NewOperation{Kind: contract.OperationRequeue, IDs: ids, Rate: 100}
	}
	ofGroup := func([]string) contract.NewOperation {
		return contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull, Rate: 100}
	}
	for name, tt := range map[string]struct {
		call string
		n    func(ids []string) contract.NewOperation
	}{
		"requeue by IDs":     {"requeue", byIDs},
		"requeue of a group": {"requeue", ofGroup},
		"delete of a group": {"delete", func([]string) contract.NewOperation {
			return contract.NewOperation{Kind: contract.OperationDelete, Group: diskFull, Rate: 100}
		}},
		"delete by IDs": {"delete", func(ids []string) contract.NewOperation {
			return contract.NewOperation{Kind: contract.OperationDelete, IDs: ids, Rate: 100}
		}},
		"purge": {"delete", func([]string) contract.NewOperation {
			return contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateDead, Rate: 100}
		}},
		"canary": {"requeue", func([]string) contract.NewOperation {
			return contract.NewOperation{Kind: contract.OperationRequeue, Rate: 100,
				Canary: &contract.OperationCanary{Jobs: 100}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				ids := r.die("a", 1000, "disk is full")
				id := r.begin(tt.n(ids)).ID
				for kills := range 12 {
					killIn(r, id, tt.call, kills)
				}
				if o := r.get(id); o.State != contract.OperationInterrupted || !strings.Contains(o.Reason, "continue") {
					t.Errorf("after a kill it is %+v", o)
				}
				r.must(r.Continue(mail.Namespace, id, "ada"))
				if r.get(id).Canary != nil {
					r.await(id, contract.OperationWaiting)
					r.must(r.Continue(mail.Namespace, id, "ada"))
				}
				o := r.await(id, contract.OperationDone)
				r.want(o, 1000, 0, 0)
				if c := r.stats().Counters; c.Requeued+c.Deleted != 1000 || r.sizes().Dead != 0 {
					t.Errorf("the queue has %+v", r.stats())
				}
			})
		})
	}
}

// killIn continues an operation and kills its process in one of its next calls: before it, or behind it.
func killIn(r *rig, id, call string, kills int) {
	r.t.Helper()
	calls, stuck := 0, false
	hang := func(ctx context.Context, c string) error {
		if stuck || c == call {
			calls++
		}
		if stuck = stuck || calls > kills%3; stuck {
			<-ctx.Done()
			return contract.Errorf(duly.CodeUnavailable, "the process is dead")
		}
		return nil
	}
	dead := func(ctx context.Context, _ string) error {
		if stuck {
			return hang(ctx, call)
		}
		return nil
	}
	if kills%2 == 0 {
		r.engine.fail(hang, nil)
	} else {
		r.engine.fail(dead, hang)
	}

	if r.get(id).State == contract.OperationInterrupted {
		r.must(r.Continue(mail.Namespace, id, "ada"))
	}
	for range 1000 {
		if synctest.Wait(); stuck || r.get(id).State == contract.OperationWaiting {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.kill()
}

// C14.99: a job that the first try of a step has requeued, and that is dead again after the restart, is not taken again.
func TestRepeatedStepTakesNoJobThatDiedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 100, "disk is full")
		r.engine.fail(nil, func(ctx context.Context, call string) error {
			if call == "requeue" {
				<-ctx.Done()
				return contract.Errorf(duly.CodeUnavailable, "the process is dead")
			}
			return nil
		})
		id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue}).ID
		synctest.Wait()
		r.kill()
		r.bury(5, "again")
		time.Sleep(time.Millisecond)
		r.must(r.Continue(mail.Namespace, id, "ada"))
		r.want(r.await(id, contract.OperationDone), 100, 0, 0)
		if s := r.stats(); s.Sizes.Dead != 5 || s.Counters.Requeued != 100 {
			t.Errorf("the queue has %+v", s)
		}
	})
}

// C14.99: a server that stops lets the last call finish. Nothing starts by itself after the restart, not even an operation that was
// queued. One that was paused is still paused.
func TestStoppedServerInterruptsItsOperations(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 1000, "disk is full")
		var ids []string
		for range MaxRunning + 2 {
			ids = append(ids, r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: 1}).ID)
		}
		r.must(r.Pause(t.Context(), mail.Namespace, ids[1], "ada"))
		time.Sleep(10 * time.Second)
		r.restart()
		time.Sleep(time.Minute)
		for i, id := range ids {
			want := contract.OperationInterrupted
			if i == 1 {
				want = contract.OperationPaused
			}
			if o := r.get(id); o.State != want || o.CurrentRate != 0 {
				t.Errorf("operation %d is %+v", i, o)
			}
		}
		taken := r.get(ids[0]).Taken
		if taken < 9 || taken > 11 {
			t.Errorf("%d jobs were taken", taken)
		}
		r.must(r.Stop(t.Context(), mail.Namespace, ids[0], "ada"))
		r.restart()
		if o := r.get(ids[0]); o.State != contract.OperationStopped || o.Taken != taken || len(o.Answers) != int(taken) {
			t.Errorf("after another restart it is %+v", o)
		}
	})
}

// C14.100: an operation is one action of the audit log. Its outcome comes at its end, also after a restart.
func TestOperationIsOneAction(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 10, "disk is full")
		first := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: 1}).ID
		second := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: 1}).ID
		time.Sleep(3 * time.Second)
		r.restart()
		r.must(r.Continue(mail.Namespace, first, "bob"))
		r.await(first, contract.OperationDone)
		r.restart()
		r.must(r.Stop(t.Context(), mail.Namespace, second, "bob"))

		var got []string
		for _, l := range r.lines() {
			got = append(got, fmt.Sprint(l["phase"], " ", l["action"] == first, " ", l["result"]))
			if l["phase"] == "intent" && (l["caller"] != "account ada" || l["queue"] != "mail" || l["namespace"] != "shop" ||
				l["route"] != auditRoute || !strings.Contains(fmt.Sprint(l["jobs"]), "requeue: all dead jobs")) {
				t.Errorf("the intent is %v", l)
			}
		}
		want := "intent true <nil>, intent false <nil>, outcome true ok, outcome false stopped"
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("the log has %s, want %s", text, want)
		}
	})
}

// lines returns the lines of the audit log.
func (r *rig) lines() (list []map[string]any) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "audit", "audit-00000001.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

// C14.101: a start whose record or whose audit line cannot be stored is refused, and nothing has changed. A disk that is
// full later stops the work before the next step, and the operation continues when there is room.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 100, "disk is full")
		var full atomic.Bool
		full.Store(true)
		write := func(path, text string) error {
			if full.Load() {
				return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return durable.WriteFile(path, text)
		}
		r.store.Write = write
		n := contract.NewOperation{Kind: contract.OperationRequeue, Queue: "mail", Rate: 10}
		_, err := r.Start(mail.Namespace, n, ada)
		if list, _, _ := r.List(mail.Namespace, duly.PageParams{}); duly.CodeOf(err) != duly.CodeFull || len(list) != 0 {
			t.Errorf("a start returns %v, and %d operations exist", err, len(list))
		}
		if _, err := os.Stat(filepath.Join(r.dir, "audit", "audit-00000001.jsonl")); err == nil {
			t.Errorf("the audit log has %v", r.lines())
		}

		full.Store(false)
		if err := os.WriteFile(filepath.Join(r.dir, "audit"), nil, 0o600); err != nil { // a file instead of the folder
			t.Fatal(err)
		}
		_, err = r.Start(mail.Namespace, n, ada)
		files, _ := os.ReadDir(filepath.Join(r.dir, Folder))
		if duly.CodeOf(err) != duly.CodeUnavailable || len(files) != 0 {
			t.Errorf("without an audit log a start returns %v, and %d files exist", err, len(files))
		}
		if err := os.Remove(filepath.Join(r.dir, "audit")); err != nil {
			t.Fatal(err)
		}
		if time.Sleep(time.Minute); r.sizes().Dead != 100 || r.engine.calls["requeue"] != 0 {
			t.Errorf("the queue has %+v", r.sizes())
		}

		id := r.begin(n).ID
		time.Sleep(3 * time.Second)
		full.Store(true)
		time.Sleep(time.Minute)
		o := r.get(id)
		if o.State != contract.OperationRunning || !strings.Contains(o.Error, "free space") || o.Done > 40 ||
			r.stats().Counters.Requeued != o.Done {
			t.Errorf("on a full disk it is %+v", o)
		}
		// A stop works on a full disk, and its jobs were not taken.
		other := r.must(r.Stop(t.Context(), mail.Namespace, id, "ada"))
		r.want(other, o.Done, 0, 0)
		full.Store(false)
		r.want(r.await(r.begin(n).ID, contract.OperationDone), 100-o.Done, 0, 0)
	})
}

// C14.99: only the owner can read a record. A record that cannot be read is not listed, and stays. Temporary files of a killed process
// are removed.
func TestRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id := r.begin(contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateDead}).ID
		r.await(id, contract.OperationDone)
		r.stop()

		dir := filepath.Join(r.dir, Folder)
		info, err := os.Stat(filepath.Join(dir, id+".json"))
		folder, err2 := os.Stat(dir)
		if err != nil || err2 != nil || info.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700 {
			t.Errorf("the modes are %v and %v, %v, %v", info.Mode(), folder.Mode(), err, err2)
		}
		good, err := os.ReadFile(filepath.Join(dir, id+".json"))
		if err != nil {
			t.Fatal(err)
		}
		bad := map[string]string{
			duly.NewNumber().String() + ".json": "{", duly.NewNumber().String() + ".json": string(good),
			duly.NewNumber().String() + ".json": `{"Version":2}`, "notes.txt": "", duly.NewNumber().String() + ".json": "",
			duly.NewNumber().String() + ".json": strings.Repeat("x", 4<<20+1),
		}
		bad["."+id+".json"+"-123"] = "half"
		for name, text := range bad {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		if list, _, err := r.List(mail.Namespace, duly.PageParams{}); len(list) != 1 || err != nil || list[0].ID != id {
			t.Errorf("the list has %+v, %v", list, err)
		}
		if files, _ := os.ReadDir(dir); len(files) != len(bad) || strings.Count(r.log.String(), "cannot be read") != 5 {
			t.Errorf("%d files are left: %s", len(files), r.log)
		}
	})
}

// C14.99: a server keeps the last 1000 ended operations, for 30 days.
func TestOldOperationsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		n := contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateDead}
		first := r.begin(n).ID
		r.await(first, contract.OperationDone)
		r.mu.Lock()
		for range maxEnded {
			o := contract.Operation{ID: duly.NewNumber().String(), Namespace: mail.Namespace, Ended: time.Now().Add(time.Minute),
				State: contract.OperationDone}
			r.all[o.ID] = &entry{rec: &record.Record{Operation: o}}
		}
		r.mu.Unlock()
		r.begin(n)
		if _, err := r.Get(mail.Namespace, first); duly.CodeOf(err) != duly.CodeNotFound {
			t.Errorf("the oldest one returns %v", err)
		}
		if files, _ := os.ReadDir(filepath.Join(r.dir, Folder)); len(files) != 1 {
			t.Errorf("%d files are left", len(files))
		}
		seen, pages := map[string]bool{}, 0
		for p := (duly.PageParams{Limit: 300}); ; pages++ {
			list, next, err := r.List(mail.Namespace, p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				if seen[list[i].ID] || list[i].Answers != nil || i > 0 && list[i].ID > list[i-1].ID {
					t.Fatalf("the list has %+v", list[i])
				}
				seen[list[i].ID] = true
			}
			if p.Cursor = next; next == "" {
				break
			}
		}
		if len(seen) < maxEnded || len(seen) > maxEnded+1 || pages != 3 {
			t.Errorf("the list has %d operations", len(seen))
		}
		time.Sleep(maxAge + time.Hour)
		r.begin(n)
		if list, _, _ := r.List(mail.Namespace, duly.PageParams{Limit: 1000}); len(list) != 1 {
			t.Errorf("a month later it has %d operations", len(list))
		}
	})
}

// Without a data folder, operations live in memory.
func TestOperationsWithoutAFolder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		dir := r.dir
		r.store.Dir = ""
		r.die("a", 10, "disk is full")
		o := r.await(r.begin(contract.NewOperation{Kind: contract.OperationRequeue}).ID, contract.OperationDone)
		if r.want(o, 10, 0, 0); len(o.Answers) != 10 {
			t.Errorf("it has %d answers", len(o.Answers))
		}
		if _, err := os.Stat(filepath.Join(dir, Folder)); err == nil {
			t.Error("a folder was created")
		}
	})
}
