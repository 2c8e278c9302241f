package topics

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// numbers are the packed numbers of a shard or a group, by the names of include/numbers.lua.
type numbers map[string]int64

// These are the names of the numbers, in the order of include/numbers.lua.
var (
	topicNumbers = []string{
		"first", "first_ms", "last", "last_ms", "bytes", "largest", "freed", "sequence", "waiting", "waiting_bytes",
		"known", "published", "exists",
		"entered", "canceled", "trimmed", "dropped", "forgotten", "holder", "holder_since", "rest",
	}
	groupNumbers = []string{
		"birth", "cursor", "cursor_ms", "start", "out", "low", "low_ms", "idle", "called", "announced", "stuck",
		"delivered", "acked", "failed",
		"stalled", "released", "died", "requeued", "deleted", "dropped", "filtered", "skipped", "replayed", "missed",
		"closed_until", "slowed",
	}
)

// readNumbers unpacks numbers. One of them may be a string, which it returns.
func readNumbers(packed string, names []string) (n numbers, text string) {
	u := codec.Unpacker{Rest: packed}
	size := u.Array()
	n = make(numbers, size)
	// Another version may have stored more numbers, or fewer.
	for i := range min(size, len(names)) {
		if names[i] == "birth" || names[i] == "holder" && u.IsText() {
			text = u.Text()
			continue
		}
		n[names[i]] = u.Integer()
	}
	return n, text
}

// Topic implements contract.TopicOperator.
func (e *Topics) Topic(ctx context.Context, ref duly.QueueRef) (info duly.TopicInfo, err error) {
	if err := e.admit(ctx, ref); err != nil {
		return info, err
	}

	ref = ref.Normal()
	// This reads the current configuration into the cache.
	if _, err := e.Catalog.Read(ctx, ref); err != nil {
		return info, err
	}

	var w catalog.Walk
	err = e.WithTopic(ctx, ref, func(q *catalog.Queue) error {
		if w.Begin(q) {
			info = duly.TopicInfo{}
		}
		info.Config = q.Topic.Config
		return w.Each(q, 0, func(s *catalog.Shard) error {
			r, err := e.CallTopic(ctx, q, s, store.ScriptTopicStats)
			if err == nil {
				addTopicStats(&info.Stats, q, s, r)
			}
			return err
		})
	})
	return info, err
}

func addTopicStats(st *duly.TopicStats, q *catalog.Queue, s *catalog.Shard, r catalog.Reply) {
	now := codec.Integer(&r.Rest[0])
	n, holder := readNumbers(codec.Text(&r.Rest[1]), topicNumbers)
	at := messages.ShardOf(q.Ref, s.Index)
	// A new shard has no first message yet.
	if n["first"] == 0 {
		n["first"] = 1
	}
	// An empty log has first = last + 1.
	count := n["last"] - n["first"] + 1

	st.Messages += count
	st.Bytes += n["bytes"] + n["waiting_bytes"]
	if count > 0 {
		first := at.Position(messages.Place{Ordinal: uint64(n["first"]), Millis: codec.Integer(&r.Rest[3])})
		last := at.Position(messages.Place{Ordinal: uint64(n["last"]), Millis: n["last_ms"]})
		if st.First == (duly.Position{}) || slices.Compare(first[:], st.First[:]) < 0 {
			st.First = first
		}
		if slices.Compare(last[:], st.Last[:]) > 0 {
			st.Last = last
		}
	}
	st.Delayed += n["waiting"]

	if due := clock.FromMilli(codec.Integer(&r.Rest[2])); n["waiting"] > 0 &&
		(st.NextDue.IsZero() || due.Before(st.NextDue)) {
		st.NextDue = due
	}

	st.Published += n["published"]
	st.Exists += n["exists"]
	st.Entered += n["entered"]
	st.Canceled += n["canceled"]
	st.Trimmed += n["trimmed"]
	st.Dropped += n["dropped"]
	st.Forgotten += n["forgotten"]

	heads := codec.Elements(&r.Rest[4])
	lows := map[string]numbers{}
	for i := 0; i+1 < len(heads); i += 2 {
		lows[codec.Text(&heads[i])], _ = readNumbers(codec.Text(&heads[i+1]), groupNumbers)
	}
	// Without groups, no message is kept for a group.
	if f, lowest := floorOf(lows, n, now); f.Group != "" {
		f.Shard, f.Position = s.Index, at.Position(messages.Place{Ordinal: lowest, Millis: codec.Integer(&r.Rest[5])})
		if f.Group == holder {
			f.Since = clock.FromMilli(n["holder_since"])
		}
		st.Floors = append(st.Floors, f)
	}
}

// floorOf returns the group that needs the oldest message.
func floorOf(groups map[string]numbers, topic numbers, now int64) (f duly.Floor, ordinal uint64) {
	next, lowest := topic["last"]+1, topic["last"]+1
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}

	// The order makes the choice between groups with the same need repeatable.
	slices.Sort(names)
	for _, name := range names {
		g := groups[name]
		// An idle group does not keep messages.
		if g["idle"] > 0 && now > g["called"]+g["idle"] {
			continue
		}
		// Earlier messages were trimmed, so they are not kept for a group.
		low := max(g["low"], topic["first"])
		if low < lowest {
			f.Group, next, lowest = name, lowest, low
		} else {
			next = min(next, low)
		}
	}

	f.Alone = next - lowest
	return f, uint64(lowest)
}

// GroupStats returns the stats of a group.
func (e *Topics) GroupStats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, err error) {
	if err := e.admitGroup(ctx, ref); err != nil {
		return st, err
	}

	var w catalog.Walk
	var sum *groupSum
	err = e.WithGroup(ctx, ref.Normal(), func(q *catalog.Queue) error {
		// When the walk starts over, the sum starts over as well.
		if w.Begin(q) || sum == nil {
			sum = newGroupSum()
		}
		return w.Each(q, 0, func(s *catalog.Shard) error {
			r, err := e.CallGroup(ctx, q, s, store.ScriptGroupStats)
			if err == nil {
				sum.add(r)
			}
			return err
		})
	})

	if err != nil {
		return duly.Stats{}, err
	}
	return sum.stats(), nil
}

// groupSum adds up the stats of a group's shards.
type groupSum struct {
	st        duly.Stats
	blocked   map[string]int64
	consumers map[string]int64
	parked    bool
}

func newGroupSum() *groupSum {
	return &groupSum{st: duly.Stats{Group: &duly.GroupStats{}, Tokens: duly.None}, blocked: map[string]int64{},
		consumers: map[string]int64{}, parked: true}
}

func (g *groupSum) add(r catalog.Reply) {
	// All times of a reply are by the shard's own clock.
	now := codec.Integer(&r.Rest[0])
	st, own := &g.st, g.st.Group
	sizes := codec.Elements(&r.Rest[1])
	for i, state := range []duly.State{duly.StateDelayed, duly.StateReady, duly.StateBlocked, duly.StateLeased,
		duly.StateDead} {
		*st.Sizes.Of(state) += codec.Integer(&sizes[i])
	}
	if oldest := codec.Integer(&r.Rest[2]); oldest > 0 {
		st.OldestReady = max(st.OldestReady, time.Duration(now-oldest)*time.Millisecond)
	}
	if next := codec.Integer(&r.Rest[3]); next > 0 &&
		(st.NextDue.IsZero() || clock.FromMilli(next).Before(st.NextDue)) {
		st.NextDue = clock.FromMilli(next)
	}

	n, _ := readNumbers(codec.Text(&r.Rest[4]), groupNumbers)
	c := &st.Counters
	for field, to := range map[string]*int64{
		"delivered": &c.Delivered, "acked": &c.Acked, "failed": &c.Failed, "stalled": &c.Stalled,
		"released": &c.Released, "slowed": &c.Slowed, "died": &c.Dead,
		"requeued": &c.Requeued, "deleted": &c.Deleted, "dropped": &c.Dropped,
		"filtered": &own.Filtered, "skipped": &own.Skipped, "replayed": &own.Replayed, "missed": &own.Missed,
	} {
		*to += n[field]
	}
	last := codec.Integer(&r.Rest[5])
	own.Lag += last - n["cursor"]
	own.Entered += last - n["start"] + 1
	if needed := codec.Integer(&r.Rest[6]); needed > 0 {
		own.OldestNeeded = max(own.OldestNeeded, time.Duration(now-needed)*time.Millisecond)
	}
	own.AtMaxHeld = own.AtMaxHeld || codec.Integer(&r.Rest[7]) == 1
	keys := codec.Elements(&r.Rest[8])
	for i := 0; i+1 < len(keys); i += 2 {
		g.blocked[codec.Text(&keys[i+1])] += codec.Integer(&keys[i])
	}
	closing := contract.Closing{Until: codec.Integer(&r.Rest[11]), Reason: codec.Text(&r.Rest[12])}
	st.Closing = contract.LaterClosing(st.Closing, closing.Info())
	codec.AddLimiter(st, &r.Rest[13], &r.Rest[14])
	codec.AddTokens(st, &r.Rest[15], &r.Rest[16])
	// A group counts as parked only if it is parked in every shard.
	g.parked = g.parked && codec.Integer(&r.Rest[9]) == 1
	names := codec.Elements(&r.Rest[10])
	for i := 0; i+1 < len(names); i += 2 {
		name := codec.Text(&names[i])
		g.consumers[name] = max(g.consumers[name], codec.Integer(&names[i+1]))
	}
}

// stats returns the sum.
func (g *groupSum) stats() duly.Stats {
	own := g.st.Group
	for key, n := range g.blocked {
		// The smaller key wins a tie, so that repeated calls agree.
		if most := g.blocked[own.Key]; n > most || n == most && key < own.Key {
			own.Key = key
		}
	}
	for name, at := range g.consumers {
		own.Consumers = append(own.Consumers, duly.Consumer{Name: name, LastCall: clock.FromMilli(at)})
	}
	slices.SortFunc(own.Consumers, func(a, b duly.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	own.Consumers = own.Consumers[:min(len(own.Consumers), duly.MaxConsumers)]
	if own.Parked = g.parked; own.Parked {
		own.OldestNeeded = 0
	}
	return g.st
}

// place returns the shard and the position of the message with this ID.
func (e *Topics) place(ref duly.QueueRef, id string) (shard int, p messages.Place, err error) {
	topic, _, _ := ref.Group()
	n, ok := duly.ParseNumber(id)
	if !ok || contract.PositionPartsOf(n).Topic != contract.TopicChecksum(topic) {
		return 0, p, contract.ForeignPosition(ref, id)
	}
	return contract.PositionPartsOf(n).Shard, messages.PlaceOf(n), nil
}

// GetMessage returns a message that a group holds, or a dead copy.
func (e *Topics) GetMessage(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	if err := contract.ValidateID(id); err != nil {
		return duly.JobInfo{}, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}
	return e.get(ctx, ref, id)
}

// get returns one message.
func (e *Topics) get(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	results, err := e.getAll(ctx, ref, []string{id}, true)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return results[0].Info, results[0].Err
}

// GetMessages returns messages that a group holds, or dead copies.
func (e *Topics) GetMessages(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return nil, err
	}
	return e.getAll(ctx, ref, ids, bodies)
}

// getAll asks the shards one after the other, because they share the room of the answer.
func (e *Topics) getAll(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	list := newIDs(e, ref, ids)
	results := make([]contract.JobResult, len(ids))
	refuse := func(i int, err error) { results[i].Err = err }
	var room contract.JobRoom

	err := e.WithGroup(ctx, list.ref, func(q *catalog.Queue) error {
		return list.eachShard(q, refuse, func(shard int, all []int) error {
			args := append([]string{codec.Flag(bodies), strconv.Itoa(room.Left())}, list.placesAt(all)...)
			r, err := e.CallGroup(ctx, q, q.Shards[shard], store.ScriptGroupGet, args...)
			if err != nil {
				return err
			}

			g := messages.GroupOf(q.Ref, shard, q.Config)
			for k, i := range all {
				info, found := g.Info(&r.Rest[1+k], bodies)
				switch {
				case codec.Text(&r.Rest[1+k]) == "large":
					results[i].Err = contract.NoRoom(ids[i])
				case !found:
					results[i].Err = contract.NoMessage(list.ref, ids[i])
				default:
					room.Take(len(info.Body))
					results[i].Info = info
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// MessageByReceipt returns the message that a receipt was issued for.
func (e *Topics) MessageByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	p, ok := contract.ParseReceipt(r)
	if !ok {
		return duly.JobInfo{}, contract.ValidateReceipt(r)
	}
	ref := duly.QueueRef{Namespace: namespace, Name: p.Queue}.Normal()
	if err := e.admitGroup(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}
	topic, _, _ := ref.Group()
	if at := contract.PositionPartsOf(p.Number); at.Shard != p.Shard || at.Topic != contract.TopicChecksum(topic) {
		// The receipt belongs to no message of this group.
		return duly.JobInfo{}, contract.NotFound(ref, p.Number.String())
	}
	return e.get(ctx, ref, p.Number.String())
}

// cursor is the position after which a list continues.
type cursor struct {
	State  string `json:"state"`
	Shard  int    `json:"shard"`
	Score  string `json:"score"`
	Member []byte `json:"member"`
}

func (c cursor) text() string {
	text, err := json.Marshal(c)
	if err != nil {
		// Marshal can't fail for plain fields.
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// score matches the score of a position as Redis writes it.
var score = regexp.MustCompile(`^(-?[0-9]{1,20})?$`)

func readCursor(text, state string) (c cursor, err error) {
	if text == "" {
		return cursor{State: state}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	// The cursor comes from callers, and its parts become arguments of commands.
	if err != nil || json.Unmarshal(raw, &c) != nil || c.State != state || c.Shard < 0 || !score.MatchString(c.Score) {
		return c, contract.BadCursor()
	}
	return c, nil
}

// ListMessages lists the messages of one state of a group.
func (e *Topics) ListMessages(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (page duly.ListPage,
	err error) {
	if err := contract.ValidateList(&p); err != nil {
		return page, err
	}
	from, err := readCursor(p.Cursor, p.State.String())
	if err != nil {
		return page, err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return page, err
	}

	err = e.WithGroup(ctx, ref.Normal(), func(q *catalog.Queue) error {
		// A retry after a change of the configuration starts the page again.
		page = duly.ListPage{}
		at, room := from, duly.MaxBatchBytes
		begin, end := contract.ListShards(&p, len(q.Shards))
		if at.Shard < begin {
			at = cursor{State: at.State, Shard: begin}
		}
		for at.Shard < end {
			some, more, err := e.listShard(ctx, q, &at, p, p.Limit-len(page.Jobs), room)
			if err != nil {
				return err
			}
			for i := range some {
				room -= len(some[i].Body)
			}
			page.Jobs = append(page.Jobs, some...)
			if !more {
				at = cursor{State: at.State, Shard: at.Shard + 1}
			}
			// A page also ends at its byte limit, with more messages in the same shard.
			if at.Shard < end && (more || len(page.Jobs) >= p.Limit) {
				page.Next = at.text()
				return nil
			}
		}
		return nil
	})
	return page, err
}

func (e *Topics) listShard(
	ctx context.Context, q *catalog.Queue, at *cursor, p duly.ListParams, most, room int,
) (all []duly.JobInfo, more bool, err error) {
	s := q.Shards[at.Shard]
	score, member := codec.ListStart(&p, at.Score, at.Member)
	r, err := e.CallGroup(ctx, q, s, store.ScriptGroupList, at.State, strconv.Itoa(most), codec.Flag(p.Bodies),
		strconv.Itoa(room), score, string(member), codec.Flag(p.Newest), codec.OnlyKey(p.Key))
	if err != nil {
		return nil, false, err
	}
	g := messages.GroupOf(q.Ref, s.Index, q.Config)
	for _, m := range codec.Elements(&r.Rest[2]) {
		if info, ok := g.Info(&m, p.Bodies); ok {
			all = append(all, info)
		}
	}
	// An empty page returns no place, so the cursor stays.
	if last := codec.Text(&r.Rest[4]); last != "" {
		at.Score, at.Member = codec.Text(&r.Rest[3]), []byte(last)
	}
	return all, codec.Integer(&r.Rest[1]) == 1, nil
}
