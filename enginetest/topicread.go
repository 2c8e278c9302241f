package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicReadTests() []test {
	return []test{
		{"StartsAtTheGivenPositionOrTime", []string{"C12.141"}, Options{}, readFroms},
		{"ReturnsPages", []string{"C12.141", "C12.142"}, Options{}, readPages},
		{"ChangesNothing", []string{"C12.141"}, Options{}, readChangesNothing},
		{"WaitsForAFirstMessage", []string{"C12.141"}, Options{}, readWaits},
		{"ReportsTheGapBeforeTheOldestMessage", []string{"C12.143", "C12.136"}, Options{}, readGap},
		{"FromBeyondTheEndIsAConflict", []string{"C12.144"}, Options{}, readBeyond},
		{"FromALostLogIsAConflict", []string{"C12.144", "C12.173"}, Options{}, readRegrown},
		{"FailsWhenTheTopicIsRecreated", []string{"C12.183"}, Options{}, readMadeAgain},
		{"ContinuesFarFromTheStart", []string{"C12.141", "C12.142", "C12.143"}, Options{}, readFar},
		{"EndsAPageAt8MiB", []string{"C12.141"}, Options{}, readBytes},
		{"NamesBadParameters", []string{"C12.141"}, Options{}, readBad},
	}
}

func (s *scene) readBodies(from duly.From) string {
	s.Helper()
	var b strings.Builder
	for _, e := range s.readAll(from) {
		b.Write(e.Body)
	}
	return b.String()
}

func readFroms(s *scene) {
	s.send("a", "b")
	s.Advance(time.Second)
	c := s.send("c")[0]
	at := s.now()
	s.Advance(time.Second)
	s.send("d")

	for from, want := range map[duly.From]string{
		"": "abcd", duly.FromStart: "abcd", duly.FromEnd: "", duly.From(c): "cd", duly.FromTime(at): "cd",
		duly.FromTime(at.Add(time.Millisecond)): "d", duly.FromTime(at.Add(-time.Hour)): "abcd",
		duly.FromTime(at.Add(time.Hour)): "",
	} {
		same(s, "a read from "+string(from), s.readBodies(from), want)
	}
}

func readPages(s *scene) {
	s.send(numberedBodies("", 7)...)
	from, got := duly.FromStart, ""
	for range 3 {
		page := s.readPage(contract.ReadParams{From: from, Limit: 3})
		for _, e := range page.Entries {
			got += string(e.Body)
		}
		from = page.Next
	}
	same(s, "the pages", got, "0123456")
	end := s.readPage(contract.ReadParams{From: from})
	same(s, "the messages after the end", len(end.Entries), 0)

	// The next position of an empty page continues with later messages.
	s.send("7")
	same(s, "the page after the end", s.readBodies(end.Next), "7")
	same(s, "a page of the default size", len(s.readPage(contract.ReadParams{}).Entries), 8)
}

func readChangesNothing(s *scene) {
	g := s.group("g")
	s.send("a", "b")
	g.take()
	s.topicUnchanged("reading", func() {
		s.readAll(duly.FromStart)
		s.readPage(contract.ReadParams{From: duly.FromEnd})
	})
}

func readWaits(s *scene) {
	// A delayed message does not count, because it is not in the log.
	s.send("a")
	s.publish(duly.Message{Body: []byte("delayed"), Delay: time.Hour})
	type answer struct {
		bodies string
		at     time.Time
		err    error
	}
	read := func(p contract.ReadParams) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			page, err := s.log().Read(s.ctx, s.topic(), p)
			bodies := ""
			for _, e := range page.Entries {
				bodies += string(e.Body)
			}
			done <- answer{bodies, s.now(), err}
		}()
		s.Quiet()
		return done
	}
	same(s, "a read of a stored message", (<-read(contract.ReadParams{Wait: time.Minute})).bodies, "a")

	late := read(contract.ReadParams{From: duly.FromEnd, Wait: time.Minute})
	// Only a new message or the end of the wait ends the Read.
	s.Advance(59 * time.Second)
	same(s, "reads that returned early", len(late), 0)
	start := s.now()
	s.send("b")
	got := <-late
	s.must("read", got.err)
	same(s, "the message that a read waited for", got.bodies, "b")
	sameTime(s, "the time of the return", got.at, start)

	empty := read(contract.ReadParams{From: duly.FromEnd, Wait: time.Minute})
	s.Advance(time.Minute)
	got = <-empty
	s.must("read", got.err)
	same(s, "the messages after a timeout", got.bodies, "")
}

func readGap(s *scene) {
	g := s.group("g")
	positions := s.send("a", "b", "c", "d")
	first := s.readPage(contract.ReadParams{Limit: 1})
	// The first three messages are trimmed. A Read from before reports how many it misses.
	g.ackAll(g.reserve(3))
	s.stepTopic()

	page := s.readPage(contract.ReadParams{From: duly.From(positions[0])})
	same(s, "the first message", string(page.Entries[0].Body), "d")
	same(s, "the gap before it", page.Gap, 3)
	page = s.readPage(contract.ReadParams{From: first.Next})
	same(s, "the gap after the first page", page.Gap, 2)
	same(s, "the gap of the next page", s.readPage(contract.ReadParams{From: page.Next}).Gap, 0)
	same(s, "the gap of the start", s.readPage(contract.ReadParams{}).Gap, 0)
	same(s, "the gap of a stored position", s.readPage(contract.ReadParams{From: duly.From(positions[3])}).Gap, 0)

	g.ackAll(g.reserve(1))
	s.stepTopic()
	page = s.readPage(contract.ReadParams{From: duly.From(positions[1])})
	same(s, "the messages of an empty log", len(page.Entries), 0)
	same(s, "the gap in an empty log", page.Gap, 3)
	s.send("e")
	same(s, "the later messages", s.readBodies(page.Next), "e")
}

func readBeyond(s *scene) {
	last := s.send("a")[0]
	// The position after the last message, with an earlier time than the next message will have.
	parts := mustPosition(s, last)
	parts.Ordinal++
	parts.Millis--
	from := duly.FromPosition(parts.Position())
	_, err := s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: from})
	s.refused("a read from beyond the end", err, duly.CodeConflict)
	if err != nil && !strings.Contains(err.Error(), "the log ends at "+last) {
		s.Errorf("error %q must contain the position of the end of the log", err)
	}
	s.send("b")
	_, err = s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: from})
	s.refused("a read from a lost position whose number is used again", err, duly.CodeConflict)
}

// readRegrown reads from positions of a log that was lost and has grown again. A recreated topic
// is such a log.
func readRegrown(s *scene) {
	old := s.send("a", "b", "c")
	page := s.readPage(contract.ReadParams{Limit: 2})
	must := func(want string) {
		s.Helper()
		_, err := s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: page.Next})
		s.refused("a read from the next "+want, err, duly.CodeConflict)
		_, err = s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: duly.From(old[1])})
		s.refused("a read from a position "+want, err, duly.CodeConflict)
	}

	s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
	s.Advance(time.Second)
	// The new log has fewer, as many, and more messages than the old one.
	s.send("1")
	must("beyond the end")
	s.send("2")
	must("that another message has now")
	s.send("3", "4") // the new log has the ordinals of the old positions now
	must("in the log")

	page = s.readPage(contract.ReadParams{Limit: 2})
	s.send("5")
	same(s, "the log from a position of the new topic", s.readBodies(page.Next), "345")
}

// readMadeAgain waits for messages of a topic that is destroyed and created again. The new topic
// has as many messages as the old one, or fewer.
func readMadeAgain(s *scene) {
	for _, bodies := range [][]string{nil, {"a"}, {"a", "b", "c"}} {
		s.must("configure", s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Keep: time.Hour}))
		s.send(bodies...)
		failed := make(chan error, 1)
		go func() {
			_, err := s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: duly.FromEnd, Wait: time.Minute})
			failed <- err
		}()
		s.Quiet()

		s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
		s.send("1")
		s.refused(fmt.Sprintf("a read that waited after %d messages of a recreated topic", len(bodies)),
			<-failed, duly.CodeNotFound)
		s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
	}
}

// readFar reads single messages of a log with many messages at several times.
func readFar(s *scene) {
	positions := s.sendOver(6, duly.MaxBatch)
	for _, i := range []int{0, 1, 4500, len(positions) - 2} {
		from := duly.From(positions[i])
		for _, want := range positions[i : i+2] {
			page := s.readPage(contract.ReadParams{From: from, Limit: 1})
			if len(page.Entries) != 1 || page.Entries[0].Position.String() != want {
				s.Fatalf("a read from %s, near message %d, returns %d messages, want the one at %s", from, i, len(page.Entries),
					want)
			}
			from = page.Next
		}
	}
}

func readBytes(s *scene) {
	for range 10 {
		s.publish(duly.Message{Body: make([]byte, 1<<20)})
	}
	page := s.readPage(contract.ReadParams{})
	same(s, "the messages of the first page", len(page.Entries), 8)
	same(s, "the messages of the second page", len(s.readPage(contract.ReadParams{From: page.Next}).Entries), 2)
}

func readBad(s *scene) {
	s.send("a")
	for field, p := range map[string]contract.ReadParams{
		"from": {From: "yesterday"}, "limit": {Limit: duly.MaxBatch + 1}, "wait": {Wait: duly.MaxWait + time.Second},
	} {
		_, err := s.log().Read(s.ctx, s.topic(), p)
		s.names("read", err, duly.CodeInvalid, field)
	}
	for _, next := range []duly.From{"next:", "next:x y", "next:" + duly.From(fmt.Sprint(-1))} {
		_, err := s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: next})
		s.names("read from "+string(next), err, duly.CodeInvalid, "from")
	}
}
