package link

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// checks decides whether the servers can hold queues.
type checks struct{ *core }

// node is the description of one server.
type node struct {
	addr   string
	client rueidis.Client
	hello  map[string]rueidis.RedisMessage
	info   map[string]string // nil if the user may not call INFO
	err    error
}

// check returns an error if a server is unsuitable, and logs warnings.
func (l *checks) check(ctx context.Context) error {
	nodes, err := l.ask(ctx)
	if err != nil {
		return err
	}

	// An unsuitable server is an error, so it comes before the warnings.
	for _, n := range nodes {
		if err := l.checkServer(n); err != nil {
			return err
		}
	}

	for _, n := range nodes {
		if n.info == nil {
			l.log.Warn("redis: the user may not call INFO, so maxmemory-policy and appendonly are not checked; grant it: "+
				"ACL SETUSER USER +info",
				slog.String("setting", "acl"), slog.String("server", n.addr))
			continue
		}
		if err := l.checkStorage(n); err != nil {
			return err
		}
	}

	// checkRights runs a script, which needs a node that answers.
	l.answered = nodes[0].client
	return l.checkRights(ctx)
}

// ask asks all nodes concurrently. It skips nodes of a cluster that don't answer. If no node
// answers, it returns an error.
func (l *checks) ask(ctx context.Context) ([]node, error) {
	var nodes []node
	for addr, client := range l.main.Nodes() {
		nodes = append(nodes, node{addr: addr, client: client})
	}

	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() { nodes[i].ask(ctx) })
	}

	wg.Wait()
	var answered []node
	var last node
	for _, n := range nodes {
		if n.err == nil {
			answered = append(answered, n)
		} else {
			last = n
		}
	}

	if len(answered) == 0 {
		return nil, l.fault("open", verdictOf(last.err), last.err)
	}

	return answered, nil
}

// ask calls HELLO, which every user may call, and INFO, which may be forbidden.
func (n *node) ask(ctx context.Context) {
	b := n.client.B()
	replies := n.client.DoMulti(ctx,
		b.Arbitrary("HELLO").Build(),
		b.Arbitrary("INFO", "memory", "persistence", "replication").Build())
	if n.hello, n.err = replies[0].AsMap(); n.err != nil {
		return
	}
	text, err := replies[1].ToString()
	// Without the right to call INFO its checks are skipped, with a warning.
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "NOPERM") {
		return
	}
	n.info, n.err = map[string]string{}, err
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			n.info[name] = value
		}
	}
}

// says returns a field of the answer to HELLO.
func (n node) says(field string) string {
	msg := n.hello[field]
	text, _ := msg.ToString()
	return text
}

// version returns the server's major and minor version.
func (n node) version() (major, minor int) {
	parts := strings.SplitN(n.says("version"), ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// checkServer checks the server's mode, version and role against the URL.
func (l *checks) checkServer(n node) error {
	mode, major, minor := n.says("mode"), 0, 0
	switch {
	case mode == "sentinel":
		return l.unfit(duly.CodeInvalid, n, "this is a Sentinel; write redis+sentinel://HOST:26379/MASTER")
	case mode == "cluster" && l.o.Mode != Cluster:
		return l.unfit(duly.CodeInvalid, n,
			"this is a node of a cluster; begin the URL with redis+cluster:// (rediss+cluster:// for TLS)")
	case mode != "cluster" && l.o.Mode == Cluster:
		return l.unfit(duly.CodeInvalid, n, "this is not a cluster; begin the URL with redis:// (rediss:// for TLS)")
	}

	major, minor = n.version()
	newer := func(a, b int) bool { return major > a || major == a && minor >= b }
	switch valkey := n.says("server") == "valkey"; {
	case valkey && !newer(7, 2), !newer(7, 0):
		return l.unfit(
			duly.CodeUnsupported, n,
			fmt.Sprintf("the server is %s %s; duly needs Redis 7.0 or Valkey 7.2", n.says("server"), n.says("version")),
		)
	case l.o.Durability.AOF && !newer(7, 2):
		return l.unfit(duly.CodeUnsupported, n, fmt.Sprintf(
			"durability=aof needs the command WAITAOF, of Redis 7.2 and later; the server is %s %s",
			n.says("server"), n.says("version")))
	}

	if role := n.says("role"); l.o.Mode == Single && role != "master" {
		v := verdictOfReply("READONLY")
		return l.unfit(v.code, n, v.advice)
	}

	return nil
}

// checkStorage checks whether the server keeps its data: eviction, append-only file
// and replicas.
func (l *checks) checkStorage(n node) error {
	// A replica's settings don't matter until it becomes the primary.
	if n.info["role"] == "slave" {
		return nil
	}
	if err := l.checkEviction(n); err != nil {
		return err
	}

	if n.info["aof_enabled"] == "0" {
		if l.o.Durability.AOF {
			return l.unfit(duly.CodeInvalid, n, "durability=aof, but the server keeps no append-only file; set appendonly yes")
		}
		l.log.Warn("redis: the server keeps no append-only file, so a restart loses jobs; set appendonly yes",
			slog.String("setting", "appendonly"), slog.String("server", n.addr))
	}

	if replicas, _ := strconv.Atoi(n.info["connected_slaves"]); replicas < l.o.Durability.Replicas {
		l.log.Warn(
			"redis: the server has fewer replicas than durability asks for, so no push will be confirmed; add replicas",
			slog.String("setting", "durability"), slog.String("server", n.addr), slog.Int("replicas", replicas),
			slog.Int("wanted", l.o.Durability.Replicas),
		)
	}

	return nil
}

// unfit returns the error of an unsuitable server.
func (l *checks) unfit(code duly.Code, n node, advice string) error {
	return &duly.Error{Code: code, Message: "redis at " + n.addr + ": " + advice}
}

// Allowed checks that the server's user may call commands, each given as it would be sent, with
// keys. It returns [duly.ErrForbidden] with the missing rights. Allowed is called before all
// other calls, so later errors can name rights that were revoked since.
func (l *checks) Allowed(ctx context.Context, commands ...[]string) error {
	l.needed = append(l.needed, commands...)
	lacking, err := l.lacking(ctx, commands)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return &duly.Error{Code: duly.CodeForbidden, Message: fmt.Sprintf(
		"redis at %s: the server's user lacks rights (%s, on keys under the prefix %s); grant them: ACL SETUSER USER "+
			"+%s ~%s:*",
		l.where(), strings.Join(lacking, ", "), l.o.Prefix, strings.Join(lacking, " +"), l.o.Prefix)}
}

// lacking returns the commands that the server's user may not call.
func (l *checks) lacking(ctx context.Context, commands [][]string) ([]string, error) {
	msg, err := l.runAnywhere(ctx, mayCall(commands))
	if err != nil {
		return nil, err
	}
	positions, err := msg.AsIntSlice()
	if err != nil {
		return nil, err
	}
	return namesAt(commands, positions), nil
}

// runAnywhere runs a script without keys. In a cluster it uses the node that answered when the link
// was opened, because another node may be down.
func (l *checks) runAnywhere(ctx context.Context, c Call) (rueidis.RedisMessage, error) {
	if l.o.Mode != Cluster {
		return l.Run(ctx, c)
	}
	r, p := l.request(l.sent(c)), l.Backoff(ctx)
	for {
		cmds := r.build(l.answered.B(), nil)
		j := l.assess(r, l.answered.Do(ctx, cmds[len(cmds)-1]))
		if !j.retry || !j.atOnce && !p.Wait() {
			return j.result.Msg, left(ctx, j.result.Err)
		}
	}
}

// checkRights checks the rights for the commands that the link itself sends.
func (l *checks) checkRights(ctx context.Context) error {
	key := l.o.Prefix + ":{check}"
	commands := [][]string{
		{"evalsha", mayCallScript.SHA, "1", key}, {"eval", "", "1", key}, {"evalsha_ro", mayCallScript.SHA, "1", key},
		{"eval_ro", "", "1", key},
		{"bzpopmin", key, "0"}, {"client", "id"}, {"client", "unblock", "1"}, {"unlink", key},
	}
	switch d := l.o.Durability; {
	case d.AOF:
		commands = append(commands, []string{"set", key, "", "px", "1"}, []string{"waitaof", "1", "0", "0"})
	case d.Replicas > 0:
		commands = append(commands, []string{"set", key, "", "px", "1"}, []string{"wait", "1", "0"})
	}
	return l.Allowed(ctx, commands...)
}

// evictionEvery is the interval at which the log repeats that the server drops keys. The reason:
// operators who once accepted that may have forgotten it.
const evictionEvery = time.Minute

// warnOfEviction repeats the warning of checkEviction until the link is closed.
func (l *checks) warnOfEviction() {
	for clock.Sleep(l.life, l.clock, evictionEvery) == nil {
		// While no server answers, there are no nodes to check.
		nodes, _ := l.ask(l.life)
		for _, n := range nodes {
			// checkEviction returns no error, because EvictionWarn is set.
			_ = l.checkEviction(n)
		}
	}
}

// checkEviction returns an error for a server that drops keys when its memory is full. With
// EvictionWarn it logs a warning instead.
func (l *checks) checkEviction(n node) error {
	policy := n.info["maxmemory_policy"]
	switch {
	case n.info["role"] == "slave" || policy == "" || policy == "noeviction":
		return nil
	case !l.o.EvictionWarn:
		return l.unfit(duly.CodeUnsupported, n, "the server drops keys when its memory is full (maxmemory-policy "+policy+
			"), which loses jobs; set it to noeviction, or write eviction=warn into the URL")
	}
	l.log.Warn("redis: the server drops keys when its memory is full, which loses jobs; set maxmemory-policy to "+
		"noeviction",
		slog.String("setting", "maxmemory-policy"), slog.String("server", n.addr), slog.String("policy", policy))
	return nil
}
