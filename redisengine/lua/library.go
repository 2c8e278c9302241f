package lua

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Library is a Redis Functions library: the scripts of one concern.
//
// Its name and the names of its functions contain a hash of its text. Two versions of duly can
// therefore use one server concurrently, and an existing function is certainly the right one.
type Library struct {
	Name   string
	Source string // for FUNCTION LOAD
	// Basic says that every process calls the library. Without topics, schedules and Check, a server does not have the
	// others. Each function costs every call time, because Redis collects garbage after the calls.
	Basic bool
	hash  string
}

// NamePrefix begins the names of all libraries, of this version and of others.
const NamePrefix = "duly_"

// concern lists the contents of a library. Each script includes some of the pieces, in this
// order. A piece in rare is defined once for each script that includes it, and not once for the
// library, because a Lua function can have only 200 locals.
type concern struct {
	name                  string
	basic                 bool
	pieces, rare, scripts []string
}

var concerns = []concern{
	{
		name:  "jobs",
		basic: true,
		pieces: strings.Fields(`
			guard clock now limits closing limiter version ticks pending policy job sets keys finish find find_many due_at
			backoff soonest bucket outcome moments marker wake mark_new pushing forward ulid close less behind slice report
			counters`),
		rare: strings.Fields(`
			version find find_many due_at backoff outcome mark_new pushing forward ulid less behind slice report counters`),
		scripts: strings.Fields(`
			push reserve settle extend step get peek list order_keys stats explain idle look holding overdue mark
			delete promote update requeue purge configure destroy slow`),
	},
	{
		name: "schedules",
		pieces: strings.Fields(`
			guard clock now limits closing limiter ticks pending policy job sets keys finish find due_at soonest bucket
			moments marker wake pushing schedule put_schedule less behind`),
		scripts: strings.Fields(`
			schedule_put schedule_set schedule_drop schedule_get schedule_list schedule_fire
			check_schedules check_schedule`),
	},
	{
		name: "check",
		pieces: strings.Fields(`
			guard clock now limits closing limiter limiter_check ticks pending careful policy job sets keys finish
			counters soonest bucket moments marker wake judge mend close`),
		rare:    strings.Fields("limiter_check"),
		scripts: strings.Fields("check_page check_job check_entry check_shard"),
	},
	{
		name: "topics",
		pieces: strings.Fields(`
			guard clock now limits version due_at numbers group_closing limiter limiter_check soonest bucket outcome
			message log ranges upcoming types entering topic group_head pages group_types group backoff held less behind slice
			group_find group_look group_mark group_close group_begin`),
		rare: strings.Fields("version due_at limiter_check outcome backoff topic less behind slice group_find"),
		scripts: strings.Fields(`
			topic_publish topic_read topic_step topic_stats topic_delayed topic_message topic_cancel
			topic_configure topic_destroy topic_check
			group_reserve group_settle group_extend group_step group_look group_seek group_list group_get group_stats
			group_delete group_purge group_requeue group_check group_slow`),
	},
	{
		name:   "registry",
		basic:  true,
		pieces: strings.Fields("clock now queue_entry announce"),
		scripts: strings.Fields(`
			queue_put queue_set check_list token_put token_limit token_drop token_list token_spend token_give_back
			placement_put placement_list target_put target_drop target_list push_queue`),
	},
}

// Libraries returns every library.
func Libraries() []*Library { return slices.Clone(libraries()) }

// A library that can't be assembled is a mistake in this package, which its tests find.
var libraries = sync.OnceValue(func() (all []*Library) {
	for _, c := range concerns {
		l, err := c.library()
		if err != nil {
			panic(err)
		}
		all = append(all, l)
	}
	return all
})

// libraryOf returns the library that contains a script.
func libraryOf(script string) *Library {
	for i, c := range concerns {
		if slices.Contains(c.scripts, script) {
			return libraries()[i]
		}
	}
	panic(fmt.Errorf("lua: %s belongs to no library", script))
}

// function returns the library's name for a script.
func (l *Library) function(script string) string { return NamePrefix + script + "_" + l.hash }

func (c concern) library() (*Library, error) {
	scripts := make([]*scriptText, len(c.scripts))
	for i, name := range c.scripts {
		var err error
		if scripts[i], err = readScript(name); err != nil {
			return nil, err
		}
		if !isSubsequence(scripts[i].includes, c.pieces) {
			return nil, fmt.Errorf("lua: %s includes its pieces in another order than library %s", name, c.name)
		}
	}

	all := mostKeys(scripts)
	var b strings.Builder
	c.definePieces(&b, scripts, all)
	for _, s := range scripts {
		s.register(&b, all, c.rare)
	}

	// The hash is part of the names, so it is computed from the text without them.
	text := b.String()
	sum := sha256.Sum256([]byte(text))
	l := &Library{Basic: c.basic, hash: hex.EncodeToString(sum[:5])}
	l.Name = NamePrefix + c.name + "_" + l.hash
	l.Source = "#!lua name=" + l.Name + "\n" + strings.ReplaceAll(text, hashPlace, l.hash)
	return l, nil
}

// hashPlace is replaced by the hash later.
const hashPlace = "@HASH@"

// definePieces writes the shared part of the functions: the command, all keys, the arguments that
// pieces read, and the pieces' definitions.
func (c concern) definePieces(b *strings.Builder, scripts []*scriptText, all names) {
	var shared names
	add := func(name string) {
		if !slices.Contains(shared.fixed, name) {
			shared.fixed = append(shared.fixed, name)
		}
	}
	add("call")
	add("byte")
	for _, s := range scripts {
		for _, key := range slices.Concat(s.keys.fixed, s.keys.group) {
			add(key)
		}
	}
	for _, name := range c.pieces {
		for _, arg := range pieces()[name].args {
			add(arg)
		}
	}
	shared.declare(b)

	// Most scripts need all keys of a shard. A separate function binds them, because Lua allows a
	// function only sixty upvalues.
	b.WriteString("local function bind_keys(KEYS)\n")
	all.assign(b, "KEYS")
	b.WriteString("end\n")

	for _, name := range c.pieces {
		if !slices.Contains(c.rare, name) {
			b.WriteString(pieces()[name].define)
		}
	}
}

// register writes the function of a script. Arguments that no piece reads are its locals. all are
// the keys that bind_keys binds.
func (s *scriptText) register(b *strings.Builder, all names, rare []string) {
	b.WriteString("do\n")
	for _, name := range s.includes {
		if slices.Contains(rare, name) {
			b.WriteString(pieces()[name].define)
		}
	}
	own := names{}
	for _, arg := range slices.Concat(s.args.fixed, s.args.group) {
		if !slices.ContainsFunc(s.includes, func(piece string) bool { return slices.Contains(pieces()[piece].args, arg) }) {
			own.fixed = append(own.fixed, arg)
		}
	}
	// The script's functions read them, too.
	answer, before, after := s.runs()
	if s.define != "" || answer != "" {
		own.declare(b)
		b.WriteString(s.define)
	}
	if answer != "" {
		b.WriteString("local function answer(KEYS, ARGV)\n" + after + "end\n")
		after = "return " + answer + "(answer(KEYS, ARGV))\n"
	}

	b.WriteString("redis.register_function{function_name='" + NamePrefix + s.name + "_" + hashPlace + "', ")
	if m := flags.FindStringSubmatch(s.first); m != nil {
		b.WriteString("flags={'" + m[1] + "'}, ")
	}
	// The pieces read these as upvalues, so each call sets them.
	b.WriteString("callback=function(KEYS, ARGV)\nbyte = string.byte\ncall = redis.call\n")
	if s.define == "" && answer == "" {
		own.declare(b)
	}
	if slices.Equal(s.keys.fixed, all.fixed) {
		b.WriteString("bind_keys(KEYS)\n")
	} else {
		s.keys.assign(b, "KEYS")
	}
	s.args.assign(b, "ARGV")
	b.WriteString(before + after + "end}\nend\n")
}

// mostKeys returns the longest list of keys among the scripts.
func mostKeys(scripts []*scriptText) (most names) {
	for _, s := range scripts {
		if len(s.keys.fixed) > len(most.fixed) {
			most = s.keys
		}
	}
	return most
}

// isSubsequence reports whether whole contains all of list, in the same order.
func isSubsequence(list, whole []string) bool {
	for _, item := range list {
		at := slices.Index(whole, item)
		if at < 0 {
			return false
		}
		whole = whole[at+1:]
	}
	return true
}
