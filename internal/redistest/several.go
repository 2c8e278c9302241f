package redistest

import (
	"net/url"
	"slices"
	"testing"
)

// servers returns processes as a test uses them.
func servers(t testing.TB, all []*process, shared bool) []*Server {
	list := make([]*Server, len(all))
	for i, p := range all {
		list[i] = &Server{t: t, p: p, shared: shared}
	}
	return list
}

// removeAll removes processes at the end of their test.
func removeAll(t testing.TB, all []*process) {
	t.Cleanup(func() {
		for _, p := range all {
			if err := p.remove(); err != nil {
				t.Error(err)
			}
		}
	})
}

func processes(all []*Server) []*process {
	list := make([]*process, len(all))
	for i, s := range all {
		list[i] = s.p
	}
	return list
}

func addresses(all []*Server) []string {
	list := make([]string, len(all))
	for i, s := range all {
		list[i] = s.Addr()
	}
	return list
}

// many returns a URL of several servers.
func many(scheme string, addresses []string, path, password string) string {
	u := url.URL{Scheme: scheme, Host: addresses[0], Path: path, RawQuery: url.Values{"addr": addresses[1:]}.Encode()}
	if password != "" {
		u.User = url.UserPassword("", password)
	}
	return u.String()
}

// running returns the servers that were started and not ended, killed or paused.
func running(all []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(all), func(s *Server) bool { return !s.p.running() })
}

// at returns the server with the given address, as the other servers know it.
func at(t testing.TB, all []*Server, address string) *Server {
	t.Helper()
	i := slices.IndexFunc(all, func(s *Server) bool { return s.p.known() == address })
	if i < 0 {
		t.Fatalf("none of the test's servers is at %s", address)
	}
	return all[i]
}
