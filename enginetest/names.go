package enginetest

import (
	"strings"

	"github.com/dulymq/duly"
)

func nameTests() []test {
	return []test{
		{"QueueNamesAreValidated", []string{"C1.11", "C1.12"}, Options{}, namesOfQueues},
		{"NamespaceNamesAreValidated", []string{"C1.11", "C1.12"}, Options{}, namesOfNamespaces},
		{"IDsAreValidated", []string{"C1.11", "C1.12"}, Options{}, namesOfIDs},
		{"InvalidNamesChangeNothing", []string{"C1.11", "C1.12"}, Options{}, namesLookedUp},
		{"KeysAreUTF8WithoutControlCharacters", []string{"C1.13"}, Options{}, namesOfKeys},
		{"HeadersAreTokensInLowerCase", []string{"C1.14"}, Options{}, namesOfHeaders},
		{"SimilarNamesAreKeptApart", []string{"C1.1", "C1.3"}, Options{}, namesAreInjective},
	}
}

// badNames returns names that are invalid for queues, namespaces and IDs.
func badNames() []string {
	return []string{
		".", "..", "../x", "a/b", "a b", "a\x00b", "a\nb", "ä", "a{b}", "a%2fb", "a*", "a,b", "a;b", "a'b", `a"b`, "a\\b",
		"a\xffb",
		"\u202ea", "ａ", ".a", "\ta",
	}
}

func namesOfQueues(s *scene) {
	for _, name := range append(badNames(), "_a", ":a", "a:b", strings.Repeat("a", duly.MaxName+1)) {
		s.names("a push to the queue "+name, s.try(duly.Job{Queue: name}).Err, duly.CodeInvalid, "queue")
	}

	// An empty name is invalid too.
	results, err := s.Engine.Push(s.ctx, []duly.Job{{}})
	s.must("push", err)
	s.names("a push to no queue", results[0].Err, duly.CodeInvalid, "queue")

	good := []string{"a", "A-b_c.d", "0", "-a", strings.Repeat("a", duly.MaxName)}
	for _, name := range good {
		s.push(duly.Job{Queue: name})
		same(s, "deliveries from "+name, len(s.reserve(1, name)), 1)
	}
	same(s, "the number of queues", len(s.queues()), len(good))
}

func namesOfNamespaces(s *scene) {
	for _, name := range append(badNames(), ":a", "a:b", strings.Repeat("a", duly.MaxName+1)) {
		results, err := s.Engine.Push(s.ctx, []duly.Job{{Namespace: name, Queue: "q"}})
		if err == nil {
			err = results[0].Err
		}
		// A server may refuse a namespace of another form as forbidden.
		if code := duly.CodeOf(err); code != duly.CodeInvalid && (s.In == nil || code != duly.CodeForbidden) {
			s.Errorf("a push to the namespace %q returns %v, want invalid", name, err)
		}
	}
	for _, name := range []string{"-a", "_a", "A.b", strings.Repeat("n", duly.MaxName)} {
		n := s.in(name)
		n.push(duly.Job{})
		same(s, "the namespace of the delivery", n.take().Namespace, name)
	}
}

func namesOfIDs(s *scene) {
	for _, id := range append(badNames(), "-a", ":a", strings.Repeat("a", duly.MaxID+1)) {
		s.names("a push with the ID "+id, s.try(duly.Job{ID: id}).Err, duly.CodeInvalid, "id")
	}
	for _, id := range []string{"a", "_a", "A-b_c.d:e", "0", strings.Repeat("a", duly.MaxID), strings.Repeat("z", 26)} {
		same(s, "the ID", s.push(duly.Job{ID: id}), id)
		s.is(id, duly.StateReady)
		same(s, "the ID delivered", s.take().ID, id)
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), id))
		s.gone(id)
	}
}

func namesLookedUp(s *scene) {
	s.push(duly.Job{ID: "a"})
	s.unchanged("an operation with an invalid name", func() {
		for _, id := range []string{"", ".", "..", "a/b", "a\x00"} {
			_, err := s.Engine.Get(s.ctx, s.ref(), id)
			s.nowhere("get", err)
			s.nowhere("delete", s.Engine.Delete(s.ctx, s.ref(), id))
			s.nowhere("promote", s.Engine.Promote(s.ctx, s.ref(), id))
			s.nowhere("update", s.Engine.Update(s.ctx, s.ref(), id, duly.Update{Tries: 2}))
		}
		for _, queue := range []string{"", ".", "..", "a/b", "a\x00"} {
			ref := duly.Q(queue)
			s.nowhere("purge", errorOf(s.Engine.Purge(s.ctx, ref, duly.StateReady, 1)))
			s.nowhere("destroy", s.Engine.Destroy(s.ctx, ref))
			s.nowhere("pause", s.Engine.Pause(s.ctx, ref))
			s.nowhere("stats", errorOf(s.Engine.Stats(s.ctx, ref)))
		}
	})
}

// nowhere reports an error unless an invalid name is refused or not found.
func (s *scene) nowhere(what string, err error) {
	s.Helper()
	if code := duly.CodeOf(err); code != duly.CodeInvalid && code != duly.CodeNotFound {
		s.Errorf("%s with a bad name returns %v, want invalid or not_found", what, err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func namesOfKeys(s *scene) {
	// These are keys with control characters, with invalid UTF-8, and with one byte too many.
	for _, key := range []string{"a\nb", "\x00", "a\x7f", "a\u0085", "\xff", "a\xc3",
		strings.Repeat("ä", duly.MaxKey/2+1)} {
		s.names("an order key", s.try(duly.Job{OrderKey: key}).Err, duly.CodeInvalid, "order_key")
		s.names("a merge key", s.try(duly.Job{Merge: duly.Merge{Key: key}}).Err, duly.CodeInvalid, "merge.key")
	}
	for _, key := range []string{" ", "ä/b:c", "日本語", `"'{}*%`, strings.Repeat("ä", duly.MaxKey/2)} {
		d := s.get(s.push(duly.Job{OrderKey: key, Merge: duly.Merge{Key: key}}))
		same(s, "the order key", d.OrderKey, key)
		same(s, "the merge key", d.Merge.Key, key)
	}
}

func namesOfHeaders(s *scene) {
	for _, name := range []string{"", "a b", "a:b", "ä", "a\n", "a\x00", "(a)", "a,b"} {
		s.names("a header name", s.try(duly.Job{Headers: map[string]string{name: "v"}}).Err, duly.CodeInvalid, "headers")
	}
	for _, value := range []string{"a\r", "a\nb", "\x00", "\xff"} {
		s.names("a header value", s.try(duly.Job{Headers: map[string]string{"a": value}}).Err, duly.CodeInvalid, "headers")
	}
	// Names that differ in case only are equal.
	s.names("a header twice", s.try(duly.Job{Headers: map[string]string{"Key": "1", "kEY": "2"}}).Err, duly.CodeInvalid,
		"headers")

	s.push(duly.Job{Headers: map[string]string{"X-Trace-ID": "Ä b\tc", "!#$%&'*+-.^_`|~09": ""}})
	want := map[string]string{"x-trace-id": "Ä b\tc", "!#$%&'*+-.^_`|~09": ""}
	s.sameContent("the delivery", s.take().Job, duly.Job{Headers: want})
}

// namesAreInjective pushes the same ID under pairs of names that are equal when joined without a
// separator.
func namesAreInjective(s *scene) {
	pairs := [][2]string{{"ab", "c"}, {"a", "bc"}, {"a.b", "c"}, {"a", "b.c"}, {"a-", "b"}, {"a", "-b"}, {"A", "bc"}}
	for i, p := range pairs {
		s.in(p[0]).on(p[1]).push(duly.Job{ID: "same", Body: []byte{byte(i)}})
	}
	for i, p := range pairs {
		n := s.in(p[0]).on(p[1])
		d := n.take()
		same(s, "the body in "+n.ref().String(), d.Body[0], byte(i))
		same(s, "the queue of the delivery", d.Queue, p[1])
		n.nothing("one job was pushed to " + n.ref().String())
		n.ack(d)
	}
}
