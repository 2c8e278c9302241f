package enginetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

func payloadTests() []test {
	return []test{
		{"OfEverySizeIsReturnedUnchanged", []string{"C2.6", "C2.7"}, Options{}, payloadSizes},
		{"BoundIsConfigurable", []string{"C2.7", "C13.7"}, Options{MaxBody: 1000}, payloadBound},
		{"OfEveryByteIsReturnedUnchanged", []string{"C2.6"}, Options{}, payloadBytes},
		{"ThatIsNotUTF8IsReturnedUnchanged", []string{"C2.6"}, Options{}, payloadNotUTF8},
		{"KeepsBigNumbersInJSON", []string{"C2.6"}, Options{}, payloadNumbers},
		{"SurvivesEveryTransition", []string{"C2.6", "C8.8", "C2.30"}, Options{}, payloadStations},
		{"IsCopiedByPushAndGet", []string{"C2.6"}, Options{}, payloadNotAliased},
		{"OfResultsIsReturnedUnchanged", []string{"C2.31", "C4.20"}, Options{}, payloadResults},
		{"OfManyJobsFitsIntoOneBatch", []string{"C4.6"}, Options{OneShard: true}, payloadMany},
	}
}

// pattern returns n bytes that do not repeat at a power of two, so that shifted bytes would be
// noticed.
func pattern(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(i*i>>3 ^ i*7)
	}
	return body
}

// roundTrip pushes a body. Get and Reserve must return it unchanged.
func (s *scene) roundTrip(body []byte) {
	s.Helper()
	id := s.push(duly.Job{Body: bytes.Clone(body)})
	want := duly.Job{Body: body}
	info := s.get(id)
	same(s, "the size", info.Size, len(body))
	s.sameContent("the job", info.Job, want)
	d := s.take()
	s.sameContent("the delivery", d.Job, want)
	s.ack(d)
}

func payloadSizes(s *scene) {
	// Sizes around the limits of buffers, pages and string encodings.
	for _, n := range []int{0, 1, 2, 3, 255, 256, 4095, 4096, 4097, 65_535, 65_536, duly.DefaultMaxBody - 1,
		duly.DefaultMaxBody} {
		s.roundTrip(pattern(n))
	}
	s.names("one byte more", s.try(duly.Job{Body: pattern(duly.DefaultMaxBody + 1)}).Err, duly.CodeTooLarge, "body")
}

func payloadBound(s *scene) {
	for _, n := range []int{0, 1, 999, 1000} {
		s.roundTrip(pattern(n))
	}
	s.names("one byte more", s.try(duly.Job{Body: pattern(1001)}).Err, duly.CodeTooLarge, "body")

	// The bound applies to updates too.
	id := s.push(duly.Job{})
	s.names("an update with a byte more", s.update(id, duly.Update{Body: pattern(1001)}), duly.CodeTooLarge, "body")
	s.must("an update of that size", s.update(id, duly.Update{Body: pattern(1000)}))
}

func payloadBytes(s *scene) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
		s.roundTrip([]byte{byte(i)})
	}
	s.roundTrip(all)
	s.roundTrip(bytes.Repeat([]byte{0}, 100))
}

func payloadNotUTF8(s *scene) {
	for _, body := range []string{
		"\xff", "\xc3\x28", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xef\xbb\xbfbom", "\u0000", "a\x00b", "\u2028",
		"<script>&amp;",
		"\ufffd", `"quoted\"`, "line\r\nline", "🐰", strings.Repeat("ä", 5000), "$1 ? :name '", "base64:AAAA",
		`{"body_base64":"AA=="}`,
	} {
		s.roundTrip([]byte(body))
	}
}

func payloadNumbers(s *scene) {
	body := []byte(`{"big":12345678901234567890,"exact":9007199254740993,` +
		`"small":0.1000000000000000055511151231257827,"e":1E400,"z":-0}`)
	if !json.Valid(body) {
		s.Fatal("the example is no JSON")
	}
	s.roundTrip(body)
}

func payloadStations(s *scene) {
	want := duly.Job{Body: pattern(10_000), Headers: map[string]string{"a": "b", "trace": strings.Repeat("t", 3000)}}
	j := want
	j.ID, j.Delay, j.Retain, j.Backoff = "x", time.Second, time.Hour, "fixed:1s"
	s.push(j)

	// Move the job through its states in many ways. Headers and body must not change.
	stations := []func(){
		func() { s.Advance(time.Second); s.step() },
		func() { s.nack(s.take(), "no") },
		func() { s.Advance(time.Second); s.stall(s.take()) },
		func() { s.snooze(s.take(), time.Second) },
		func() { s.Advance(time.Second); s.bury(s.take(), "no") },
		func() { s.requeue("x") },
		func() { s.must("update", s.update("x", duly.Update{Priority: ptr(3)})) },
		func() { s.take() },
	}
	for _, next := range stations {
		next()
		s.sameContent("the job", s.get("x").Job, want)
	}
	// The receipt of the last delivery is unknown here, but the end of its lease is enough to let
	// it stall.
	s.stall(duly.Delivery{LeaseEnd: s.get("x").LeaseEnd})
	d := s.take()
	s.sameContent("the delivery", d.Job, want)
	s.ack(d)
	s.sameContent("the done job", s.get("x").Job, want)
}

// payloadNotAliased modifies the body and headers after a push, a Get and a Reserve. The stored
// job must not change.
func payloadNotAliased(s *scene) {
	body, headers := []byte("body"), map[string]string{"a": "b"}
	id := s.push(duly.Job{Body: body, Headers: headers})
	want := duly.Job{Body: []byte("body"), Headers: map[string]string{"a": "b"}}
	body[0], headers["a"] = 'X', "X"
	info := s.get(id)
	s.sameContent("the job", info.Job, want)
	info.Body[0], info.Headers["a"] = 'Y', "Y"
	d := s.take()
	s.sameContent("the delivery", d.Job, want)
	d.Body[0], d.Headers["a"] = 'Z', "Z"
	s.sameContent("the job", s.get(id).Job, want)
}

func payloadResults(s *scene) {
	for _, result := range [][]byte{nil, {0}, []byte("\xff\x00"), []byte("text"), pattern(duly.MaxResult)} {
		id := s.push(duly.Job{Retain: time.Hour})
		d := s.take()
		s.must("ack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: result}))
		if got := s.get(id).Result; !bytes.Equal(got, result) {
			s.Errorf("a result of %d bytes came back as %d bytes, want the same bytes", len(result), len(got))
		}
	}
}

func payloadMany(s *scene) {
	jobs := numbered(1000, "j")
	for i := range jobs {
		jobs[i].Body = pattern(i)
	}
	s.pushAll(jobs...)
	ds := s.reserve(1000)
	same(s, "the deliveries", len(ds), 1000)
	for i, d := range ds {
		s.sameContent("delivery "+d.ID, d.Job, jobs[i])
	}
}
