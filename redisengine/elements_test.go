package redisengine_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/lua"
)

// largest is the most elements that one command of each script may return or take on one key. The
// test makes each script reach its limit, and fails for a script that is not in this map.
var largest = map[string]int{
	"push": 1000, "reserve": 1000, "settle": 1000, "extend": 1000, "step": 1000, "requeue": 1000, "purge": 1000,
	"peek": 1000, "list": 1000, "order_keys": 200, "stats": 1000, "explain": 1000, "token_list": 1000,
	"placement_list": 1000, "target_list": 1000,
	"look": 1, "overdue": 1, "idle": 12, // these scripts read the first entries or the counters of each shard
	"holding":    500,
	"check_page": 50, "check_job": 1, "check_entry": 1, "check_list": 1, "check_shard": 15,
	"get": 1000, "delete": 1000, "promote": 1000, "update": 1, "configure": 1, "destroy": 18, "queue_put": 1, "queue_set": 1,
	"mark": 1, "slow": 1, "group_slow": 1,
	"topic_publish": 1000, "topic_read": 1000, "topic_step": 1000, "topic_stats": 1, "topic_delayed": 1000,
	"topic_message": 1, "topic_cancel": 1,
	"topic_configure": 1, "topic_destroy": 8, "topic_check": 999, "group_reserve": 1000, "group_settle": 1000,
	"group_extend": 500, "group_step": 1000, "group_look": 1,
	"group_seek": 10, "group_list": 1000, "group_get": 1, "group_stats": 1000, "group_delete": 1, "group_purge": 1000,
	"group_requeue": 999, "group_check": 200,
	"token_put": 1, "token_limit": 1, "token_drop": 2, "token_spend": 1, "token_give_back": 1, "placement_put": 1,
	"target_put": 1, "target_drop": 1, "push_queue": 1,
	"schedule_put": 1, "schedule_set": 1, "schedule_drop": 1, "schedule_get": 1, "schedule_list": 1000,
	"schedule_fire": 1000, "check_schedules": 50, "check_schedule": 1,
}

// These limits belong to scripts that work on up to a thousand entries of several kinds. An example
// is step, which handles expired jobs, ended leases, and due, dead and done jobs. It reads each
// entry more than once.
const (
	mostAtOnce   = 1000
	mostTogether = 10 * mostAtOnce
)

// TestNoScriptTakesMoreThanAThousandElements checks that no script handles more than 1000
// elements, whatever its caller requests. Every script is sent in a form that counts the elements
// of its commands, and is called with as many as possible.
//
// C4.5, C11.17
func TestNoScriptTakesMoreThanAThousandElements(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the elements are counted on the server")
	}
	c := newCounting(t)
	c.useEverything()
	c.useRegistry()
	c.useTopics()
	c.useManySchedules()
	c.useManyShards()
	c.useManyPriorities()
	c.useManyKeys()
	c.fallDue()
	c.runOut()
	c.outgrowBounds()
	c.skipExpired()
	c.explainBlocked()
	c.deleteMany()
	c.mend()
	c.judge()
}

// counted makes a script write to the server's log which command has returned or taken the most
// elements, and which command has the largest sum over its calls on one key. The log line contains
// both numbers.
func counted(name, source string) string {
	first, body, ok := strings.Cut(source, "local call = redis.call\n")
	if !ok {
		// This script belongs to the package link and accesses no data.
		return source
	}
	return first + countingLua + "local body = function()\n" + strings.ReplaceAll(body, "redis.pcall(",
		"careful_call(") + "\nend\n" +
		"local answer = body()\n" +
		"redis.log(redis.LOG_WARNING, table.concat({'elements', '" + name + "', most, most_by, together, together_by, " +
		"commands}, ' '))\n" +
		"return answer\n"
}

const countingLua = `local most, most_by, together, together_by, commands, sums = 0, 'none', 0, 'none', 0, {}
local pairs_of = {HSET = true, ZADD = true}
local function note(n, reply, command, key, ...)
  local size = math.max(1, n - 2)
  if pairs_of[command] then size = size / 2 end
  if command == 'ZREMRANGEBYRANK' then size = reply end
  if command == 'UNLINK' or command == 'EXISTS' then size = n - 1 end
  if string.sub(command, 1, 6) == 'ZRANGE' or command == 'HSCAN' or command == 'ZSCAN' or command == 'SET' then size = 1 end
  if type(reply) == 'table' then
    local got = string.sub(command, 2) == 'SCAN' and #reply[2] or #reply
    for i = 1, select('#', ...) do
      if select(i, ...) == 'WITHSCORES' then got = got / 2 end
    end
    if string.sub(command, 2) == 'SCAN' and select(select('#', ...), ...) ~= 'NOVALUES' then got = got / 2 end
    size = math.max(size, got)
  end
  commands = commands + 1
  if size > most then most, most_by = size, command end
  local of = command .. ' ' .. tostring(key)
  sums[of] = (sums[of] or 0) + size
  if sums[of] > together then together, together_by = sums[of], command .. ':' .. string.match(tostring(key), '[^:]*$') end
  return reply
end
local call = function(...) return note(select('#', ...), redis.call(...), ...) end
local careful_call = function(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then return reply end
  return note(select('#', ...), reply, ...)
end
`

// counting is a server with two engines whose scripts count the elements of each command.
type counting struct {
	*stopwatch
	fake *clock.Fake
	at   *redisengine.Engine // the same store, opened with a fake clock
}

func newCounting(t *testing.T) *counting {
	s := newStopwatch(t)
	c := &counting{stopwatch: s, fake: clock.NewFake()}
	s.e = c.open(redisengine.Config{URL: s.server.URL()})
	c.at = c.open(redisengine.Config{URL: s.server.URL() + "?prefix=at", Clock: c.fake, Manual: true})
	s.fill(4 * mostAtOnce)
	return c
}

func (c *counting) open(cfg redisengine.Config) *redisengine.Engine {
	c.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(c.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := redisengine.Open(c.Context(), redisengine.Sending(cfg, counted))
	must(c, err)
	c.Cleanup(func() { e.Close() })
	return e
}

// judge reads the log lines of the scripts.
func (c *counting) judge() {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.server.Folder(), "log"))
	must(c, err)
	seen := map[string]counts{}
	for line := range strings.Lines(string(text)) {
		_, fields, ok := strings.Cut(strings.TrimSpace(line), " elements ")
		if !ok {
			continue
		}
		name, n := readCounts(c.T, strings.Fields(fields))
		if n.most > mostAtOnce || n.together > mostTogether {
			c.Errorf("%s returned or took %v elements by one %s, %v by all %s", name, n.most, n.mostBy, n.together, n.togetherBy)
		}
		seen[name] = seen[name].with(n)
	}
	for _, name := range lua.Names() {
		want, listed := largest[name]
		switch got := seen[name]; {
		case !listed:
			c.Errorf("the script %s is not in largest: add its limit, and call it with that many elements", name)
		case int(got.together) < want:
			c.Errorf("the script %s handled %v elements, want %d", name, got.together, want)
		default:
			c.Logf("%-15s %4v at once (%s), %5v together (%s), %6d commands", name, got.most, got.mostBy, got.together,
				got.togetherBy, got.commands)
		}
	}
}

// counts is the log line of one call, or the maximum of several.
type counts struct {
	most, together     float64
	mostBy, togetherBy string
	commands           int
}

func readCounts(t *testing.T, f []string) (name string, n counts) {
	t.Helper()
	if len(f) != 6 {
		t.Fatalf("a script has logged %q", f)
	}
	var errs [3]error
	n = counts{mostBy: f[2], togetherBy: f[4]}
	n.most, errs[0] = strconv.ParseFloat(f[1], 64)
	n.together, errs[1] = strconv.ParseFloat(f[3], 64)
	n.commands, errs[2] = strconv.Atoi(f[5])
	must(t, errors.Join(errs[:]...))
	return f[0], n
}

func (n counts) with(o counts) counts {
	if o.most > n.most {
		n.most, n.mostBy = o.most, o.mostBy
	}
	if o.together > n.together {
		n.together, n.togetherBy = o.together, o.togetherBy
	}
	n.commands = max(n.commands, o.commands)
	return n
}

// pushTo pushes jobs that a function creates, through the engine with the fake clock.
func (c *counting) pushTo(queue string, n int, of func(i int) duly.Job) {
	c.Helper()
	for done := 0; done < n; done += mostAtOnce {
		jobs := make([]duly.Job, min(mostAtOnce, n-done))
		for i := range jobs {
			jobs[i] = of(done + i)
			jobs[i].Queue = queue
		}
		results, err := c.at.Push(c.Context(), jobs)
		must(c, err)
		for _, r := range results {
			must(c, r.Err)
		}
	}
}

// explainBlocked explains a job behind more blocked jobs of its order key than are counted.
func (c *counting) explainBlocked() {
	c.Helper()
	c.pushTo("lane", mostAtOnce+3, func(i int) duly.Job { return duly.Job{ID: fmt.Sprint("id-", i), OrderKey: "k"} })
	x, err := c.at.Explain(c.Context(), duly.Q("lane"), fmt.Sprint("id-", mostAtOnce+2))
	must(c, err)
	if len(x.Facts) != 1 || x.Facts[0].Count != contract.MaxBlocked || !x.Facts[0].More {
		c.Errorf("the facts are %+v", x.Facts)
	}
}

// deleteMany reads, promotes and deletes a thousand jobs, each in one batch.
func (c *counting) deleteMany() {
	c.Helper()
	ids := make([]string, mostAtOnce)
	c.pushTo("deleted", mostAtOnce, func(i int) duly.Job {
		ids[i] = fmt.Sprint("id-", i)
		return duly.Job{ID: ids[i], TTL: time.Hour, OrderKey: fmt.Sprint(i)}
	})
	_, err := c.at.GetJobs(c.Context(), duly.Q("deleted"), ids, true)
	must(c, err)
	_, err = c.at.PromoteJobs(c.Context(), duly.Q("deleted"), ids)
	must(c, err)
	must(c, c.at.DeleteTogether(c.Context(), duly.Q("deleted"), ids))
}

// take reserves a thousand jobs in one call, and returns their acks.
func (c *counting) take(queue string, lease time.Duration) (outcomes []duly.SettleRequest) {
	c.Helper()
	ds, err := c.at.Reserve(c.Context(), duly.ReserveParams{Queues: []string{queue}, Max: mostAtOnce, Lease: lease})
	if err != nil || len(ds) != mostAtOnce {
		c.Fatalf("reserved %d jobs of %s, %v", len(ds), queue, err)
	}
	for _, d := range ds {
		outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
	}
	return outcomes
}

func (c *counting) settle(outcomes []duly.SettleRequest) {
	c.Helper()
	errs, err := c.at.Settle(c.Context(), "", outcomes)
	must(c, errors.Join(append(errs, err)...))
}

// settled makes all steps of a queue, and compares its sizes, and the counter that of selects, with
// the expected values.
func (c *counting) settled(queue string, sizes duly.Sizes, of func(duly.Counters) int64, want int64) {
	c.Helper()
	for more := true; more; {
		var err error
		more, err = c.at.Step(c.Context(), duly.Q(queue))
		must(c, err)
	}
	st, err := c.at.Stats(c.Context(), duly.Q(queue))
	must(c, err)
	if n := of(st.Counters); st.Sizes != sizes || n != want {
		c.Errorf("%s: %d were counted, want %d; sizes %+v, want %+v", queue, n, want, st.Sizes, sizes)
	}
}

// useRegistry fills a page of tokens and one of placements.
func (c *counting) useRegistry() {
	c.Helper()
	for i := range mostAtOnce + 1 {
		hash := sha256.Sum256([]byte(strconv.Itoa(i)))
		must(c, c.at.PutToken(c.Context(), contract.Token{Hash: hash, Namespace: "ns", Rights: contract.RightConsume}))
		must(c, c.at.PutPlacement(c.Context(), contract.Placement{Namespace: fmt.Sprintf("n%04d", i), Pool: "p",
			Phase: contract.Placed}))
		must(c, c.at.PutTarget(c.Context(), contract.Target{Namespace: "ns", Name: fmt.Sprintf("t%04d", i)}))
	}
	p := duly.PageParams{Limit: mostAtOnce}
	tokens, err := c.at.Tokens(c.Context(), "ns", p)
	must(c, err)
	placements, err := c.at.Placements(c.Context(), p)
	must(c, err)
	if len(tokens.Tokens) != mostAtOnce || tokens.Next == "" || len(placements.Placements) != mostAtOnce ||
		placements.Next == "" {
		c.Fatalf("pages of %d tokens before %q and of %d placements before %q",
			len(tokens.Tokens), tokens.Next, len(placements.Placements), placements.Next)
	}
	tokens, err = c.at.Tokens(c.Context(), "ns", duly.PageParams{Cursor: tokens.Next, Limit: 1})
	must(c, err)
	placements, err = c.at.Placements(c.Context(), duly.PageParams{Cursor: placements.Next, Limit: 1})
	must(c, err)
	if len(tokens.Tokens) != 1 || tokens.Next != "" || len(placements.Placements) != 1 || placements.Next != "" {
		c.Errorf("the last pages are %+v and %+v", tokens, placements)
	}
	targets, err := c.at.Targets(c.Context(), "ns", p)
	must(c, err)
	if len(targets.Targets) != mostAtOnce || targets.Next == "" {
		c.Fatalf("a page of %d targets before %q", len(targets.Targets), targets.Next)
	}
	must(c, c.at.DeleteTarget(c.Context(), "ns", targets.Next))
	must(c, c.at.Configure(c.Context(), duly.Q("pushed"), duly.QueueConfig{Delivery: duly.DeliverPush}))
	hash := tokens.Tokens[0].Hash
	must(c, c.at.LimitToken(c.Context(), hash, contract.Limits{Consume: 2, Per: time.Minute}))
	begin, err := c.at.Spend(c.Context(), hash, contract.RightConsume)
	must(c, err)
	must(c, c.at.GiveBack(c.Context(), hash, contract.RightConsume, begin))
	must(c, c.at.DeleteToken(c.Context(), hash))
}

// useManySchedules lists a full page of schedules, and fires a thousand ticks in one call.
func (c *counting) useManySchedules() {
	c.Helper()
	q := duly.Q("scheduled")
	for i := range mostAtOnce {
		_, err := c.at.PutSchedule(c.Context(), q, duly.Schedule{Name: fmt.Sprint("s", i), Spec: "@yearly"})
		must(c, err)
	}
	page, err := c.at.Schedules(c.Context(), q, duly.PageParams{Limit: mostAtOnce})
	if err != nil || len(page.Schedules) != mostAtOnce || page.Next != "" {
		c.Fatalf("a page of %d schedules, behind which comes %q, %v", len(page.Schedules), page.Next, err)
	}

	_, err = c.at.PutSchedule(c.Context(), q, often("often"))
	must(c, err)
	c.fake.Advance((mostAtOnce + 100) * time.Second)
	fired := 0
	for _, r := range fireOnce(c, c.at, q) {
		if r.Status == contract.FireFired {
			fired++
		}
	}
	if fired != mostAtOnce {
		c.Errorf("one call has fired %d ticks", fired)
	}
	useSchedules(c, c.at, duly.Q("unscheduled"))
	report, err := c.at.Check(c.Context(), contract.CheckParams{})
	must(c, err)
	if len(report.Faults) > 0 {
		c.Errorf("the check finds %+v", report.Faults)
	}
	must(c, c.at.Destroy(c.Context(), q))
}

// useManyShards polls more shards than one script call may cover.
func (c *counting) useManyShards() {
	c.Helper()
	must(c, c.at.Configure(c.Context(), duly.Q("wide"), duly.QueueConfig{Shards: duly.MaxShards}))
	c.at.GiveMarkerBack(duly.Q("wide"))
	ready, err := c.at.Wait(c.Context(), duly.WaitParams{Queues: []string{"wide"}})
	if err != nil || ready {
		c.Errorf("Wait for an empty queue returned %t, %v", ready, err)
	}
	results, err := c.at.Push(c.Context(), []duly.Job{{Queue: "wide"}})
	must(c, err)
	must(c, c.at.Delete(c.Context(), duly.Q("wide"), results[0].ID))
	page, err := c.at.Survey(c.Context(), "", duly.PageParams{Limit: duly.MaxBatch})
	must(c, err)
	for _, q := range page.Queues {
		if q.Name == "wide" && q.Stats != (duly.Stats{Counters: duly.Counters{Pushed: 1, Deleted: 1},
			Delivery: duly.DeliverPull, Tokens: duly.None}) {
			c.Errorf("Survey returned %+v, %v", q.Stats, q.Err)
		}
	}
	must(c, c.at.Sweep(c.Context()))
}

// useManyPriorities has a ready job of each priority. The job with the lowest priority is the
// oldest.
func (c *counting) useManyPriorities() {
	c.Helper()
	c.pushTo("many", 1, func(int) duly.Job { return duly.Job{Priority: duly.MinPriority} })
	c.fake.Advance(time.Hour)
	c.pushTo("many", duly.MaxPriority-duly.MinPriority,
		func(i int) duly.Job { return duly.Job{Priority: duly.MaxPriority - i} })
	st, err := c.at.Stats(c.Context(), duly.Q("many"))
	if err != nil || st.OldestReady != time.Hour || st.Sizes != (duly.Sizes{Ready: duly.MaxPriority - duly.MinPriority +
		1}) {
		c.Errorf("the oldest ready job waits for %v, sizes %+v, %v", st.OldestReady, st.Sizes, err)
	}
}

// fallDue makes three thousand jobs due together, half of them with order keys, after a thousand
// expired ones.
func (c *counting) fallDue() {
	c.Helper()
	const over, due = mostAtOnce, 3 * mostAtOnce
	c.pushTo("due", over, func(int) duly.Job {
		return duly.Job{Priority: 1, TTL: time.Minute,
			Body: make([]byte, 8<<10+1)}
	})
	c.pushTo("due", due, func(i int) duly.Job {
		j := duly.Job{Delay: time.Hour, Headers: map[string]string{"a": "b"}}
		if i%2 == 0 {
			j.OrderKey = fmt.Sprint("k", i/4)
		}
		return j
	})
	for cursor := ""; ; {
		page, err := c.at.List(c.Context(), duly.Q("due"), duly.ListParams{State: duly.StateReady, Bodies: true,
			PageParams: duly.PageParams{Limit: mostAtOnce, Cursor: cursor}})
		must(c, err)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	c.fake.Advance(2 * time.Hour)
	j, err := c.at.Peek(c.Context(), duly.Q("due"))
	if err != nil || j.Headers["a"] != "b" {
		c.Errorf("the first ready job is %+v, %v", j, err)
	}
	c.settled("due", duly.Sizes{Ready: due/2 + due/4, Blocked: due / 4},
		func(n duly.Counters) int64 { return n.Expired }, over)
}

// runOut makes a thousand leases end. Their jobs are merged, die or become ready again.
func (c *counting) runOut() {
	c.Helper()
	job := func(i int, suffix string) duly.Job {
		j := duly.Job{Tries: 1, OrderKey: fmt.Sprint("k", i), ID: fmt.Sprint("id", i, suffix), Retain: time.Hour}
		switch i % 3 {
		case 0:
			j.Merge, j.ID = duly.Merge{Key: fmt.Sprint("m", i), Mode: duly.MergeReplace}, ""
		case 1:
			j.MaxStalls = duly.None
		}
		return j
	}
	c.pushTo("out", mostAtOnce, func(i int) duly.Job { return job(i, "") })
	c.take("out", time.Minute)
	c.pushTo("out", mostAtOnce, func(i int) duly.Job {
		j := job(i, "-behind")
		if i%3 != 0 {
			j.TTL = 90 * time.Second
		}
		return j
	})
	// A third of these jobs replace waiting jobs. The IDs of the other two thirds
	// exist already.
	c.pushTo("out", mostAtOnce, func(i int) duly.Job {
		j := job(i, "")
		j.Body = make([]byte, 8<<10+1)
		return j
	})
	c.fake.Advance(time.Hour)
	c.settled("out", duly.Sizes{Ready: 334 + 333, Dead: 333}, func(n duly.Counters) int64 {
		return n.Merged +
			n.Expired
	}, 2*334+666)
}

// outgrowBounds buries and finishes a thousand jobs where two thousand are over the limit.
func (c *counting) outgrowBounds() {
	c.Helper()
	q := duly.Q("full")
	for _, keep := range []int{duly.None, 1} {
		must(c, c.at.Configure(c.Context(), q, duly.QueueConfig{DeadCount: keep}))
		for range 2 {
			c.pushTo(q.Name, mostAtOnce, func(int) duly.Job { return duly.Job{} })
			outcomes := c.take(q.Name, time.Hour)
			receipts := make([]duly.Receipt, len(outcomes))
			for i := range outcomes {
				outcomes[i].As, receipts[i] = duly.Bury, outcomes[i].Receipt
			}
			errs, err := c.at.Extend(c.Context(), "", receipts, time.Hour)
			must(c, errors.Join(append(errs, err)...))
			c.settle(outcomes)
		}
	}
	c.settled(q.Name, duly.Sizes{Dead: 1}, func(n duly.Counters) int64 { return n.Dropped }, 4*mostAtOnce-1)
	must(c, c.at.Destroy(c.Context(), q))
}

// skipExpired ends the holders of a thousand order keys. Twelve expired jobs wait for each key, so
// a script that looks for the next job of each key would have to drop twelve thousand jobs. The
// short form ends the holders in only one way.
func (c *counting) skipExpired() {
	c.Helper()
	const each = 12
	for _, trial := range []struct {
		queue string
		ttl   time.Duration // TTL of the jobs that hold the keys
		end   func(queue string)
		over  int64
	}{
		{"acked", 0, func(queue string) { c.settle(c.take(queue, time.Hour)) }, each * mostAtOnce},
		{"purged", 0, c.purge, each * mostAtOnce},
		{"expired", time.Second, func(string) {}, (each + 1) * mostAtOnce},
	} {
		if trial.queue != "acked" && !long() {
			continue
		}
		key := func(i int) string { return fmt.Sprint("k", i%mostAtOnce) }
		c.pushTo(trial.queue, mostAtOnce, func(i int) duly.Job { return duly.Job{OrderKey: key(i), TTL: trial.ttl} })
		c.pushTo(trial.queue, each*mostAtOnce, func(i int) duly.Job { return duly.Job{OrderKey: key(i), TTL: time.Minute} })
		c.pushTo(trial.queue, mostAtOnce, func(i int) duly.Job { return duly.Job{OrderKey: key(i)} })
		c.fake.Advance(2 * time.Minute)
		trial.end(trial.queue)
		c.settled(trial.queue, duly.Sizes{Ready: mostAtOnce}, func(n duly.Counters) int64 { return n.Expired }, trial.over)
	}
}

func (c *counting) purge(queue string) {
	c.Helper()
	n, err := c.at.Purge(c.Context(), duly.Q(queue), duly.StateReady, mostAtOnce)
	if err != nil || n != mostAtOnce {
		c.Fatalf("purged %d, %v", n, err)
	}
}

// mend damages everything that the scripts of Check examine, and repairs it.
func (c *counting) mend() {
	c.Helper()
	c.stopwatch.damage()
	report, err := c.e.Check(c.Context(), contract.CheckParams{Repair: true})
	must(c, err)
	if report.Repaired < 3 || report.Repaired != len(report.Faults) {
		c.Errorf("%d of %d faults were repaired: %+v", report.Repaired, len(report.Faults), report.Faults)
	}
}

// TestCheckReadsHashesInOnePiece uses a server that stores even large hashes in one piece and
// returns all of their fields in one answer (C11.17). Check works on such a server, too.
func TestCheckReadsHashesInOnePiece(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	server := redistest.Single(t, redistest.Config("hash-max-listpack-entries 100000"))
	e := open(t, server.URL())
	// Lua can return at most 8000 values.
	const n = 9000
	for range n / mostAtOnce {
		jobs := make([]duly.Job, mostAtOnce)
		for i := range jobs {
			jobs[i] = duly.Job{Queue: "q", Delay: time.Hour}
		}
		_, err := e.Push(t.Context(), jobs)
		must(t, err)
	}
	if kind := server.Must("OBJECT", "ENCODING", "duly:{default/q/0}:records"); kind != "listpack" {
		t.Fatalf("the records are kept as a %v", kind)
	}
	lost := server.Must("ZRANGE", "duly:{default/q/0}:delayed", 0, 0).([]any)[0]
	server.Must("ZREM", "duly:{default/q/0}:delayed", lost)
	report, err := e.Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil || report.Jobs != n || len(report.Faults) == 0 || report.Faults[0].Kind != "job_in_no_set" ||
		report.Repaired != len(report.Faults) {
		t.Errorf("Check of %d jobs found %+v, %v", report.Jobs, report.Faults, err)
	}
}
