package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func keysTests() []test {
	one := Options{OneShard: true}
	return []test{
		{"ListsTheKeysThatJobsWaitFor", []string{"C4.140"}, one, keysWaitedFor},
		{"SortsKeysByLengthThenBytes", []string{"C4.141"}, Options{}, keysSorted},
		{"PrefixListsOnlyItsKeys", []string{"C4.142"}, Options{}, keysWithPrefix},
		{"RefusesABadPrefix", []string{"C4.142", "C13.2"}, Options{}, keysBadPrefix},
		{"LastPageHasNoCursor", []string{"C4.143"}, one, keysPages},
		{"ReturnsUnchangedKeysExactlyOnce", []string{"C4.143"}, Options{}, keysWhileMoving},
		{"RefusesAForeignCursor", []string{"C4.143"}, Options{}, keysForeignCursor},
		{"ShowsTheHeadByTheClock", []string{"C4.144"}, Options{}, keysHead},
		{"ShowsNoHeadAfterItsTTL", []string{"C4.144", "C4.145"}, Options{}, keysExpiredHead},
		{"CountsWaitingJobsToAThousand", []string{"C4.145"}, Options{}, keysManyWaiting},
		{"CountsTheStoredBlockedJobs", []string{"C4.145"}, Options{}, keysStored},
		{"ShowsWhenTheFirstWaitingJobWasDue", []string{"C4.146"}, Options{}, keysFirstDue},
		{"HolderReturnsAKeyForWhichNobodyWaits", []string{"C4.140", "C4.147"}, Options{}, keysHolder},
		{"HolderOfAFreeKeyIsNotFound", []string{"C4.147", "C4.86"}, Options{}, keysFree},
		{"HolderRefusesAKeyThatNoJobCanHave", []string{"C4.147", "C13.2"}, Options{}, keysBadKey},
		{"ChangeNothing", []string{"C4.148"}, Options{}, keysReadOnly},
		{"LaneEqualsTheOrderOfDelivery", []string{"C4.149"}, one, keysLane},
	}
}

// keyLister returns the part of the engine that lists order keys.
func (s *scene) keyLister() contract.KeyLister { return contract.KeyListerOf(s.Engine) }

// keys returns the order keys with a prefix, read page by page. It calls between after each page but the
// last.
func (s *scene) keys(prefix string, limit int, between func(page int)) (keys []contract.KeyInfo) {
	s.Helper()
	p := contract.KeysParams{Prefix: prefix, PageParams: duly.PageParams{Limit: limit}}
	for page := range 10_000 {
		got, err := s.keyLister().Keys(s.ctx, s.ref(), p)
		s.must("keys", err)
		if limit > 0 && len(got.Keys) > limit {
			s.Fatalf("a page of at most %d keys has %d", limit, len(got.Keys))
		}
		keys = append(keys, got.Keys...)
		if got.Next == "" {
			return keys
		}
		p.Cursor = got.Next
		if between != nil {
			between(page)
		}
	}
	s.Fatal("the list does not end after all keys were listed")
	return nil
}

// holder returns an order key.
func (s *scene) holder(key string) contract.KeyInfo {
	s.Helper()
	info, err := s.keyLister().Holder(s.ctx, s.ref(), key)
	s.must("holder of "+key, err)
	return info
}

// isKey reports an error unless Holder returns the text of an order key, and Keys the same if jobs wait.
func (s *scene) isKey(key, want string) {
	s.Helper()
	info := s.holder(key)
	same(s, "the key "+key, keyText(info), want)
	for _, k := range s.keys(key, 0, nil) {
		if k.Key == key {
			same(s, "the key "+key+" in the list", keyText(k), want)
			return
		}
	}
	if info.Waiting > 0 {
		s.Errorf("the list lacks the key %q", key)
	}
}

// keyText returns everything about an order key.
func keyText(k contract.KeyInfo) string {
	more := ""
	if k.More {
		more = "+"
	}
	return fmt.Sprintf("%s: %s %s due %s until %s, waiting %d%s, first due %s", k.Key, k.Head.ID, k.Head.State,
		moment(k.Head.Due), moment(k.Head.LeaseEnd), k.Waiting, more, moment(k.FirstDue))
}

func keysText(keys []contract.KeyInfo) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = keyText(k)
	}
	return strings.Join(texts, "\n")
}

func orderKeysOf(keys []contract.KeyInfo) (names []string) {
	for _, k := range keys {
		names = append(names, k.Key)
	}
	return names
}

// lines pushes n jobs for each key, with the IDs PREFIX-KEYNUMBER-JOBNUMBER.
func (s *scene) lines(prefix string, n int, keys ...string) {
	s.Helper()
	var jobs []duly.Job
	for i, key := range keys {
		for k := range n {
			jobs = append(jobs, duly.Job{ID: fmt.Sprintf("%s-%d-%d", prefix, i, k), OrderKey: key, Backoff: "fixed:1m"})
		}
	}
	for batch := range slices.Chunk(jobs, duly.MaxBatch) {
		s.pushAll(batch...)
	}
}

// sortedKeys returns keys in the order of a list.
func sortedKeys(keys []string, shards int) []string {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(contract.KeyShard(a, shards), contract.KeyShard(b, shards)),
			cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return keys
}

func keysWaitedFor(s *scene) {
	s.push(duly.Job{ID: "unrelated"})
	s.lines("none", 1, "held")
	s.lines("some", 3, "b", "a", "ab")
	s.push(duly.Job{ID: "later", OrderKey: "delayed", Delay: time.Hour})
	// A job in another queue does not count.
	s.on("other").lines("other", 2, "a", "c")

	now := moment(s.now())
	want := make([]string, 3)
	for i, k := range []struct{ key, head string }{{"a", "some-1-0"}, {"b", "some-0-0"}, {"ab", "some-2-0"}} {
		want[i] = fmt.Sprintf("%s: %s ready due %s until -, waiting 2, first due %s", k.key, k.head, now, now)
	}
	same(s, "the keys", keysText(s.keys("", 0, nil)), strings.Join(want, "\n"))
	s.sameIDs("the keys of another queue", orderKeysOf(s.on("other").keys("", 0, nil)), []string{"a", "c"})

	// The last waiting job of a key takes it.
	for range 2 {
		for _, d := range s.reserve(10) {
			if d.OrderKey == "a" {
				s.ack(d)
			} else {
				s.release(d)
			}
		}
	}
	s.sameIDs("the keys after two jobs", orderKeysOf(s.keys("", 0, nil)), []string{"b", "ab"})
	same(s, "the holder", s.holder("a").Head.ID, "some-1-2")
}

// hardKeys are keys that are hard to sort, to escape or to compare.
var hardKeys = []string{
	"a", "b", "aa", "ab", "ba", "aaa", "aab", "a b", " ", "'", `"`, `\`, "%", "*", "?", "{a}", "[a]", "a/b", "../a", "ä", "\u00ff",
	"äa", "日本", "\U0001f600", "\u202e", "\uffff", "~", "<b>", "k=v&x=y", "a+b", "#", ":", "1:a",
	strings.Repeat("a", duly.MaxKey-1), strings.Repeat("a", duly.MaxKey), strings.Repeat("ä", duly.MaxKey/2),
}

func keysSorted(s *scene) {
	s.useEngineDirectly()
	jobs := make([]duly.Job, 0, 2*len(hardKeys))
	for _, key := range hardKeys {
		jobs = append(jobs, duly.Job{OrderKey: key}, duly.Job{OrderKey: key})
	}
	s.pushAll(jobs...)
	want := sortedKeys(hardKeys, max(1, s.Shards))
	for _, limit := range []int{1, 2, 7, len(hardKeys), duly.MaxBatch} {
		s.sameIDs(fmt.Sprintf("the keys in pages of %d", limit), orderKeysOf(s.keys("", limit, nil)), want)
	}
	for _, key := range hardKeys {
		same(s, "the key of its holder", s.holder(key).Key, key)
	}
}

func keysWithPrefix(s *scene) {
	keys := append(slices.Clone(hardKeys), "abc", "abcd", "abd", "ac", strings.Repeat("a", 60), strings.Repeat("b", 60))
	s.useEngineDirectly()
	jobs := make([]duly.Job, 0, 2*len(keys))
	for _, key := range keys {
		jobs = append(jobs, duly.Job{OrderKey: key}, duly.Job{OrderKey: key})
	}
	s.pushAll(jobs...)

	prefixes := append(slices.Clone(keys), "", "A", "abcde", "z", "äb", strings.Repeat("a", 59), strings.Repeat("a", 61),
		strings.Repeat("z", duly.MaxKey))
	for _, prefix := range prefixes {
		want := slices.DeleteFunc(sortedKeys(keys, max(1, s.Shards)),
			func(key string) bool { return !strings.HasPrefix(key, prefix) })
		for _, limit := range []int{1, 3, 100} {
			s.sameIDs(fmt.Sprintf("the keys with the prefix %q", prefix), orderKeysOf(s.keys(prefix, limit, nil)), want)
		}
	}
}

func keysBadPrefix(s *scene) {
	s.lines("j", 2, "a")
	for _, prefix := range []string{"\x00", "a\n", "\u0080", "\xff", "a\xc3", strings.Repeat("a", duly.MaxKey+1),
		strings.Repeat("a", 1<<20)} {
		_, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{Prefix: prefix})
		s.names(fmt.Sprintf("a prefix of %d bytes", len(prefix)), err, duly.CodeInvalid, "prefix")
	}
	_, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{Prefix: strings.Repeat("a", duly.MaxKey+1)})
	s.namesBound("a long prefix", err, "prefix", fmt.Sprint(duly.MaxKey))

	for _, limit := range []int{-1, duly.MaxBatch + 1} {
		_, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{PageParams: duly.PageParams{Limit: limit}, Prefix: "\n"})
		s.names(fmt.Sprintf("a limit of %d", limit), err, duly.CodeInvalid, "limit")
		s.names("the prefix in the same call", err, duly.CodeInvalid, "prefix")
	}
	_, err = s.keyLister().Keys(s.ctx, duly.Q("a b"), contract.KeysParams{})
	s.names("a bad queue", err, duly.CodeInvalid, "queue")
}

func keysPages(s *scene) {
	var keys []string
	for i := range 450 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	s.lines("j", 2, keys...)
	for _, limit := range []int{7, 50, 200, 201, 449, 450, 1000} {
		s.sameIDs(fmt.Sprintf("the keys in pages of %d", limit), orderKeysOf(s.keys("", limit, nil)), keys)
	}
	page, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{})
	s.must("keys", err)
	same(s, "a page without a limit", len(page.Keys), duly.DefaultPage)
	page, err = s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{Prefix: "k00", PageParams: duly.PageParams{Limit: 10}})
	s.must("keys with a prefix", err)
	same(s, "a page of all keys with a prefix", len(page.Keys), 10)
	// With several shards, the page does not look into the others.
	if s.Shards <= 1 {
		same(s, "its cursor", page.Next, "")
	}
}

// keysWhileMoving changes keys around the cursor of a list. A key that does not change is listed once.
func keysWhileMoving(s *scene) {
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	s.lines("j", 2, keys...)
	gone := map[string]bool{}
	goes := 3
	seen := s.keys("k", 20, func(page int) {
		// The waiting job of every tenth key goes, a little ahead of the cursor.
		for ; goes < (page+1)*22 && goes < len(keys); goes += 10 {
			s.must("delete", s.Engine.Delete(s.ctx, s.ref(), fmt.Sprintf("j-%d-1", goes)))
			gone[keys[goes]] = true
		}
		s.lines(fmt.Sprint("new", page), 2, fmt.Sprint("k", page), fmt.Sprintf("k150-%d", page), fmt.Sprint("k0000", page), "b")
	})

	times := map[string]int{}
	for _, k := range seen {
		times[k.Key]++
		if k.Key == "b" {
			s.Errorf("the list of the prefix k has the key b")
		}
	}
	for _, key := range keys {
		if n := times[key]; n > 1 || n == 0 && !gone[key] {
			s.Errorf("the key %s is listed %d times, gone: %t", key, n, gone[key])
		}
	}
}

func keysForeignCursor(s *scene) {
	s.lines("j", 2, "a", "b", "ab")
	page, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{PageParams: duly.PageParams{Limit: 1}})
	s.must("keys", err)
	if page.Next == "" {
		s.Fatal("the first page of three keys has no cursor, want one")
	}
	list, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateBlocked, PageParams: duly.PageParams{Limit: 1}})
	s.must("list", err)

	for _, cursor := range []string{list.Next, "x", strings.Repeat("A", 10_000), "\xff", page.Next + "x"} {
		_, err := s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{PageParams: duly.PageParams{Cursor: cursor}})
		if err != nil {
			s.names("a foreign cursor", err, duly.CodeInvalid, "cursor")
		}
	}
	_, err = s.keyLister().Keys(s.ctx, s.ref(), contract.KeysParams{Prefix: "zz", PageParams: duly.PageParams{Cursor: page.Next}})
	s.names("a cursor of another prefix", err, duly.CodeInvalid, "cursor")
}

func keysHead(s *scene) {
	s.lines("j", 2, "k")
	pushed := moment(s.now())
	rest := ", waiting 1, first due " + pushed
	s.isKey("k", fmt.Sprintf("k: j-0-0 ready due %s until -%s", pushed, rest))

	s.Advance(time.Second)
	d := s.take()
	s.isKey("k", fmt.Sprintf("k: j-0-0 leased due %s until %s%s", pushed, moment(d.LeaseEnd), rest))
	// After a nack the head keeps its key, and waits for its retry.
	s.nack(d, "no")
	retry := moment(s.now().Add(time.Minute))
	s.isKey("k", fmt.Sprintf("k: j-0-0 delayed due %s until -%s", retry, rest))
	s.Advance(time.Minute)
	s.isKey("k", fmt.Sprintf("k: j-0-0 ready due %s until -%s", retry, rest)) // without a step
	s.step()
	s.isKey("k", fmt.Sprintf("k: j-0-0 ready due %s until -%s", retry, rest))

	s.snooze(s.take(), time.Hour)
	s.isKey("k", fmt.Sprintf("k: j-0-0 delayed due %s until -%s", moment(s.now().Add(time.Hour)), rest))
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "j-0-0"))
	s.isKey("k", fmt.Sprintf("k: j-0-1 ready due %s until -, waiting 0, first due -", pushed))

	// An ID that duly's client has made is a number.
	made := made(duly.Job{OrderKey: "number"})
	s.push(made)
	same(s, "the head with a number", s.holder("number").Head.ID, made.ID)
}

func keysExpiredHead(s *scene) {
	s.push(duly.Job{ID: "head", OrderKey: "k", TTL: time.Second})
	s.push(duly.Job{ID: "next", OrderKey: "k"})
	s.push(duly.Job{ID: "short", OrderKey: "k", TTL: time.Second, Priority: -1})
	s.push(duly.Job{ID: "alone", OrderKey: "l", TTL: time.Second})
	pushed := moment(s.now())
	s.Advance(2 * time.Second)
	s.isKey("k", fmt.Sprintf("k:  none due - until -, waiting 2, first due %s", pushed))
	_, err := s.keyLister().Holder(s.ctx, s.ref(), "l")
	s.refused("holder of a key whose head has expired", err, duly.CodeNotFound)
	s.step()
	s.isKey("k", fmt.Sprintf("k: next ready due %s until -, waiting 0, first due -", pushed))
}

func keysManyWaiting(s *scene) {
	jobs := make([]duly.Job, duly.MaxBatch)
	for i := range jobs {
		jobs[i] = duly.Job{OrderKey: "k", Priority: i % 7}
	}
	s.pushAll(jobs...)
	counts := func(key string, waiting int, more bool) {
		s.Helper()
		for _, k := range append(s.keys(key, 0, nil), s.holder(key)) {
			if k.Key == key {
				same(s, "the waiting jobs", k.Waiting, waiting)
				same(s, "more", k.More, more)
			}
		}
	}
	counts("k", contract.MaxWaiting-1, false)
	s.push(duly.Job{OrderKey: "k"})
	counts("k", contract.MaxWaiting, false)
	s.push(duly.Job{ID: "last", OrderKey: "k"})
	counts("k", contract.MaxWaiting, true)
	s.lines("j", 3, "kk") // a neighbour is not counted
	counts("k", contract.MaxWaiting, true)
	counts("kk", 2, false)
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "last"))
	counts("k", contract.MaxWaiting, false)
}

func keysStored(s *scene) {
	s.lines("j", 2, "k")
	s.push(duly.Job{ID: "due", OrderKey: "k", Delay: time.Second})
	s.push(duly.Job{ID: "short", OrderKey: "k", TTL: time.Second})
	s.Advance(2 * time.Second)
	// A due job does not wait before a step, and an expired job waits until then.
	same(s, "the waiting jobs before a step", s.holder("k").Waiting, 2)
	s.step()
	same(s, "the waiting jobs after a step", s.holder("k").Waiting, 2)
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "due"))
	same(s, "the waiting jobs after a delete", s.holder("k").Waiting, 1)
}

func keysFirstDue(s *scene) {
	begin := s.now()
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	same(s, "the moment without a waiting job", s.holder("k").FirstDue, time.Time{})
	s.push(duly.Job{ID: "oldest", OrderKey: "k"})
	s.Advance(time.Minute)
	s.push(duly.Job{ID: "low", OrderKey: "k", Priority: -5})
	sameTime(s, "the moment of the oldest", s.holder("k").FirstDue, begin)
	// The job of the higher priority takes the key next.
	s.push(duly.Job{ID: "high", OrderKey: "k", Priority: 5})
	sameTime(s, "the moment of the job with the highest priority", s.holder("k").FirstDue, s.now())
	sameTime(s, "the same in the list", s.keys("", 0, nil)[0].FirstDue, s.now())

	// A requeue pushes again.
	s.bury(s.take(), "no")
	s.Advance(time.Minute)
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "oldest"))
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "low"))
	s.requeue("head")
	sameTime(s, "the moment of a requeued job", s.holder("k").FirstDue, s.now())
}

func keysHolder(s *scene) {
	s.lines("j", 1, "k")
	now := moment(s.now())
	s.isKey("k", fmt.Sprintf("k: j-0-0 ready due %s until -, waiting 0, first due -", now))
	d := s.take()
	s.isKey("k", fmt.Sprintf("k: j-0-0 leased due %s until %s, waiting 0, first due -", now, moment(d.LeaseEnd)))
	same(s, "the number of listed keys", len(s.keys("", 0, nil)), 0)
	s.lines("more", 1, "k")
	s.isKey("k", fmt.Sprintf("k: j-0-0 leased due %s until %s, waiting 1, first due %s", now, moment(d.LeaseEnd), now))

	// A key whose name begins another one has jobs of its own.
	s.lines("long", 2, "kk", "k ")
	same(s, "the holder of kk", s.holder("kk").Head.ID, "long-0-0")
	same(s, "the holder of k and a space", s.holder("k ").Head.ID, "long-1-0")
	same(s, "the waiting jobs of k", s.holder("k").Waiting, 1)
}

func keysFree(s *scene) {
	free := func(key string) {
		s.Helper()
		_, err := s.keyLister().Holder(s.ctx, s.ref(), key)
		s.refused("holder of the free key "+key, err, duly.CodeNotFound)
		for _, k := range s.keys("", 0, nil) {
			if k.Key == key {
				s.Errorf("the free key %s is listed", key)
			}
		}
	}
	free("k") // the queue is unknown
	s.lines("j", 2, "l")
	s.push(duly.Job{ID: "delayed", OrderKey: "k", Delay: time.Hour})
	free("k")
	free("ll")
	s.ack(s.take())
	s.ack(s.take())
	free("l")
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	free("l")
}

func keysBadKey(s *scene) {
	for _, key := range []string{"", "\x00", "a\n", "\xff", strings.Repeat("a", duly.MaxKey+1)} {
		_, err := s.keyLister().Holder(s.ctx, s.ref(), key)
		s.names(fmt.Sprintf("the key %.20q", key), err, duly.CodeInvalid, "key")
	}
	_, err := s.keyLister().Holder(s.ctx, duly.Q("a b"), "k")
	s.names("a bad queue", err, duly.CodeInvalid, "queue")
}

func keysReadOnly(s *scene) {
	s.lines("j", 3, "k", "l")
	s.push(duly.Job{ID: "due", OrderKey: "k", Delay: time.Second})
	s.push(duly.Job{ID: "over", OrderKey: "m", TTL: time.Second})
	s.nack(s.take(), "no")
	s.Advance(time.Hour)
	s.unchanged("reading order keys", func() {
		s.keys("", 1, nil)
		s.keys("k", 0, nil)
		s.holder("k")
	})
}

// keysLane compares the lanes of the keys with the deliveries. The lane of a key is its head, then its
// blocked jobs in the order of the list.
func keysLane(s *scene) {
	const lanes, length = 100, 20
	var jobs []duly.Job
	for i := range lanes * length {
		jobs = append(jobs, duly.Job{
			ID: fmt.Sprintf("j%04d", i), OrderKey: fmt.Sprintf("key-%02d", i*7%lanes), Priority: i * 11 % 4 * (i % 3),
			Backoff: "fixed:0s",
		})
	}
	s.pushAll(jobs[:1000]...)
	s.Advance(time.Second)
	s.pushAll(jobs[1000:]...)

	want := map[string][]string{}
	for _, k := range s.keys("", 30, nil) {
		want[k.Key] = []string{k.Head.ID}
	}
	same(s, "the number of lanes", len(want), lanes)
	for key := range want {
		want[key] = append(want[key], s.pageIDs(ofKey(key, false), 15)...)
	}

	// Every third job fails once and is delivered again before the next one of its key.
	got, failed := map[string][]string{}, map[string]bool{}
	for n := 0; n < lanes*length; {
		for _, d := range s.reserve(64) {
			if d.ID[len(d.ID)-1]%3 == 0 && !failed[d.ID] {
				failed[d.ID] = true
				s.nack(d, "no")
				continue
			}
			got[d.OrderKey] = append(got[d.OrderKey], d.ID)
			s.ack(d)
			n++
		}
	}
	for key, ids := range want {
		same(s, "the length of the lane "+key, len(ids), length)
		s.sameIDs("the deliveries of "+key, got[key], ids)
	}
}

// shardsKeys lists keys of all shards. The keys of each shard are sorted, and the shards come in turn.
func shardsKeys(s *scene) {
	s.over(duly.QueueConfig{})
	var keys []string
	var jobs []duly.Job
	for i := range 200 {
		key := strings.Repeat("x", i%5) + fmt.Sprint("k", i*37%200)
		keys = append(keys, key)
		jobs = append(jobs, duly.Job{OrderKey: key}, duly.Job{OrderKey: key})
	}
	s.pushAll(jobs...)

	want := sortedKeys(keys, manyShards)
	for _, limit := range []int{1, 7, 25, 200, duly.MaxBatch} {
		s.sameIDs(fmt.Sprintf("the keys in pages of %d", limit), orderKeysOf(s.keys("", limit, nil)), want)
	}
	want = slices.DeleteFunc(want, func(key string) bool { return !strings.HasPrefix(key, "xk1") })
	s.sameIDs("the keys with a prefix", orderKeysOf(s.keys("xk1", 3, nil)), want)
	for _, key := range keys {
		same(s, "the waiting jobs of "+key, s.holder(key).Waiting, 1)
	}
}
