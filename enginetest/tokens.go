package enginetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func tokenTests() []test {
	return []test{
		{"IsFoundByHash", []string{"C4.83"}, Options{}, tokenFound},
		{"RevokedTokenIsNotFound", []string{"C4.83"}, Options{}, tokenRevoked},
		{"ListReturnsPagesOfOneNamespace", []string{"C4.83"}, Options{}, tokenList},
		{"MovesToAnotherNamespace", []string{"C4.83"}, Options{}, tokenMoves},
		{"SimilarNamesAreKeptApart", []string{"C4.83", "C1.1"}, Options{}, tokenNamesInjective},
		{"NamespacesAreListed", []string{"C4.85"}, Options{}, tokenNamespaces},
	}
}

// registry returns the engine's registry. It skips the test if the engine does not own its
// storage.
func (s *scene) registry() contract.Registry {
	if s.Registry == nil {
		s.Skip("this engine stores no tokens")
	}
	return s.Registry
}

func (s *scene) token(namespace, name string, rights contract.Right) contract.Token {
	s.Helper()
	t := contract.Token{
		Hash: sha256.Sum256([]byte(namespace + "/" + name)), Namespace: namespace, Rights: rights, Description: name,
		CreatedAt: s.now(),
	}
	s.must("put a token", s.registry().PutToken(s.ctx, t))
	return t
}

func tokenFound(s *scene) {
	r := s.registry()
	want := s.token("a", "worker", contract.RightConsume|contract.RightProduce)
	s.token(contract.AllNamespaces, "root", contract.RightAdmin)
	got, err := r.FindToken(s.ctx, want.Hash)
	s.must("find", err)
	sameTime(s, "the creation time", got.CreatedAt, want.CreatedAt)
	got.CreatedAt = want.CreatedAt
	same(s, "the token", got, want)
	_, err = r.FindToken(s.ctx, sha256.Sum256([]byte("nobody's")))
	s.refused("find of another", err, duly.CodeNotFound)

	// Putting a token with the same hash changes it.
	want.Description, want.Rights = "renamed", contract.RightConsume
	s.must("change", r.PutToken(s.ctx, want))
	got, err = r.FindToken(s.ctx, want.Hash)
	s.must("find", err)
	same(s, "its rights", got.Rights, contract.RightConsume)
	same(s, "its description", got.Description, "renamed")
}

func tokenRevoked(s *scene) {
	r := s.registry()
	t := s.token("a", "worker", contract.RightConsume)
	s.must("delete", r.DeleteToken(s.ctx, t.Hash))
	_, err := r.FindToken(s.ctx, t.Hash)
	s.refused("find of a revoked token", err, duly.CodeNotFound)
	s.refused("delete of it again", r.DeleteToken(s.ctx, t.Hash), duly.CodeNotFound)
}

// tokens returns the namespaces and descriptions of all listed tokens, sorted.
func (s *scene) tokens(namespace string, limit int) (names []string) {
	s.Helper()
	p := duly.PageParams{Limit: limit}
	for range 1000 {
		page, err := s.registry().Tokens(s.ctx, namespace, p)
		s.must("tokens", err)
		for _, t := range page.Tokens {
			names = append(names, t.Namespace+"/"+t.Description)
		}
		if page.Next == "" {
			slices.Sort(names) // the list is sorted by hash
			return names
		}
		p.Cursor = page.Next
	}
	s.Fatal("the list of tokens has more than 1000 pages")
	return nil
}

func tokenList(s *scene) {
	for i := range 5 {
		s.token("a", fmt.Sprintf("t%d", i), contract.RightProduce)
		s.Advance(time.Second)
	}
	s.token("b", "other", contract.RightProduce)
	s.token(contract.AllNamespaces, "root", contract.RightAdmin)
	s.sameIDs("a's tokens", s.tokens("a", 2), []string{"a/t0", "a/t1", "a/t2", "a/t3", "a/t4"})
	s.sameIDs("b's tokens", s.tokens("b", 100), []string{"b/other"})
	same(s, "all tokens", len(s.tokens("", 3)), 7)
	// The namespace ab has no tokens, although its name begins with a.
	same(s, "the tokens of another namespace", len(s.tokens("ab", 100)), 0)
}

// tokenMoves puts the same hash for another namespace. The first namespace loses the token.
func tokenMoves(s *scene) {
	t := s.token("a", "worker", contract.RightConsume)
	s.token("a", "other", contract.RightConsume)
	t.Namespace = "b"
	s.must("put for another namespace", s.registry().PutToken(s.ctx, t))

	s.sameIDs("a's tokens", s.tokens("a", 1), []string{"a/other"})
	s.sameIDs("b's tokens", s.tokens("b", 1), []string{"b/worker"})
	s.sameIDs("all tokens", s.tokens("", 1), []string{"a/other", "b/worker"})

	s.must("delete", s.registry().DeleteToken(s.ctx, t.Hash))
	s.sameIDs("a's tokens", s.tokens("a", 1), []string{"a/other"})
	s.sameIDs("b's tokens", s.tokens("b", 1), nil)
}

// tokenNamesInjective creates tokens in namespaces whose names are equal to each other, or to a
// description, when joined without a separator.
func tokenNamesInjective(s *scene) {
	names := []string{"a", "ab", "abc", "A", "a.b", "a-b", "a_b", "-a", "_a", "a.", strings.Repeat("a", duly.MaxName),
		contract.AllNamespaces}
	made := make([]contract.Token, len(names))
	for i, name := range names {
		made[i] = s.token(name, "bc", contract.RightConsume)
	}
	for i, name := range names {
		s.sameIDs("the tokens of "+name, s.tokens(name, 2), []string{name + "/bc"})
		got, err := s.registry().FindToken(s.ctx, made[i].Hash)
		s.must("find", err)
		same(s, "the namespace of the token", got.Namespace, name)
	}

	s.must("revoke", s.registry().DeleteToken(s.ctx, made[0].Hash))
	s.sameIDs("the tokens of the first", s.tokens(names[0], 2), nil)
	same(s, "the others", len(s.tokens("", 5)), len(names)-1)
}

func tokenNamespaces(s *scene) {
	r := s.registry()
	page, err := r.Namespaces(s.ctx, duly.PageParams{})
	s.must("namespaces", err)
	same(s, "the namespaces of an empty store", len(page.Names), 0)
	for _, name := range []string{"c", "a", "-x", "b"} {
		s.in(name).push(duly.Job{})
		s.in(name).on("second").push(duly.Job{})
	}

	var got []string
	p := duly.PageParams{Limit: 3}
	for range 10 {
		page, err := r.Namespaces(s.ctx, p)
		s.must("namespaces", err)
		got = append(got, page.Names...)
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}

	s.sameIDs("the namespaces", got, []string{"-x", "a", "b", "c"})
	// A namespace without queues is not listed anymore.
	s.must("destroy", s.in("a").Engine.Destroy(s.ctx, duly.QueueRef{Namespace: "a", Name: theQueue}))
	s.must("destroy", s.in("a").Engine.Destroy(s.ctx, duly.QueueRef{Namespace: "a", Name: "second"}))
	page, err = r.Namespaces(s.ctx, duly.PageParams{})
	s.must("namespaces", err)
	s.sameIDs("the namespaces that have queues", page.Names, []string{"-x", "b", "c"})
}
