package link

import (
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// evictionEvery is how often it is said again that the server drops keys: who
// has accepted it for a moment, and forgotten it, reads it in any log.
const evictionEvery = time.Minute

// warnOfEviction says so until the link is closed, as long as it is so.
func (l *checks) warnOfEviction() {
	for clock.Sleep(l.life, l.clock, evictionEvery) == nil {
		nodes, _ := l.ask(l.life) // none while nobody answers
		for _, n := range nodes {
			_ = l.evicts(n) // a warning, for warnings are what is asked for
		}
	}
}

// evicts refuses a server that drops keys when its memory is full, or warns of
// it where that was asked for.
func (l *checks) evicts(n node) error {
	policy := n.info["maxmemory_policy"]
	switch {
	case n.info["role"] == "slave" || policy == "" || policy == "noeviction":
		return nil
	case !l.o.EvictionWarn:
		return l.wrong(duly.CodeUnsupported, n, "the server drops keys when its memory is full (maxmemory-policy "+policy+
			"), which loses jobs; set it to noeviction, or write eviction=warn into the URL")
	}
	l.log.Warn("redis: the server drops keys when its memory is full, which loses jobs; set maxmemory-policy to noeviction",
		slog.String("setting", "maxmemory-policy"), slog.String("server", n.addr), slog.String("policy", policy))
	return nil
}
