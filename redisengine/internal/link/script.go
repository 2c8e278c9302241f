package link

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Kind is the type of a key's value.
type Kind int

// Library is a Redis Functions library: Lua source that registers functions. The names of the library
// and its functions are never used for another text.
type Library struct {
	Name, Source string
}

// load returns the command that loads the library.
func (f *Library) load(b rueidis.Builder) rueidis.Completed {
	return b.Arbitrary("FUNCTION", "LOAD", f.Source).Build()
}

// isLoaded reports whether FUNCTION LOAD failed because the library exists.
func isLoaded(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(e.Error(), "already exists")
}

// areNamesTaken reports whether FUNCTION LOAD failed because another library has a function with the
// name of one of the library's.
func areNamesTaken(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(strings.TrimPrefix(e.Error(), "ERR "), "Function ") && isLoaded(err)
}

// Script is a Lua script that can be sent.
type Script struct {
	Name   string // name in log lines
	Source string
	SHA    string // hash by which the server knows the script
	// ReadOnly scripts are sent so that the server rejects their writes.
	ReadOnly bool
	// Library, if set, has the script as the function of this name. The script is called as that
	// function if functions can be used.
	Library  *Library
	Function string
	// Takes, if set, reports whether the script accepts these numbers of keys and arguments. A
	// call with other numbers is a bug, and panics.
	Takes func(keys, args int) bool
}

// NewScript returns a script. The first line of a readOnly script must have the flag no-writes.
func NewScript(name, source string, readOnly bool) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:]), ReadOnly: readOnly}
}

// Call is one run of a script. It has at least one key, and all its keys have one hash tag. Keys
// and Args belong to the link afterwards, because a call may outlive its caller.
type Call struct {
	Script     *Script
	Keys, Args []string
	// Once makes the call fail at once if it did not run, so that the caller can retry it together
	// with others. Redirects are followed nevertheless, and a script that the server does not know
	// is sent as text.
	Once bool
	// Waited says that an earlier call has waited for the durability in vain. This call then waits
	// only a tenth of the time.
	Waited bool
}

// form is how a call names its script.
type form int

const (
	byHash     form = iota // by the hash of the script: EVALSHA
	byText                 // with the text of the script: EVAL
	byFunction             // by the name of its function: FCALL
)

// command returns the command of the call.
func (c Call) command(b rueidis.Builder, f form) rueidis.Completed {
	if c.Script.Takes != nil && !c.Script.Takes(len(c.Keys), len(c.Args)) {
		panic(fmt.Sprintf("link: the script %s is called with %d keys and %d arguments", c.Script.Name, len(c.Keys),
			len(c.Args)))
	}
	name, script := "EVALSHA", c.Script.SHA
	switch f {
	case byText:
		name, script = "EVAL", c.Script.Source
	case byFunction:
		name, script = "FCALL", c.Script.Function
	}
	if c.Script.ReadOnly {
		name += "_RO"
	}
	return b.Arbitrary(name, script, strconv.Itoa(len(c.Keys))).Keys(c.Keys...).Args(c.Args...).Build()
}

// mayCallScript returns the positions, from 1 on, of the commands in ARGV that the user may not
// call. Each command is its number of words, then the words. Commands that the server does not
// know count as forbidden.
var mayCallScript = NewScript("may", `#!lua flags=no-writes
local lacking, i, position = {}, 1, 0
if not redis.acl_check_cmd then return lacking end
while i <= #ARGV do
	local n = tonumber(ARGV[i])
	position = position + 1
	local words = {}
	for k = 1, n do words[k] = ARGV[i + k] end
	local known, granted = pcall(redis.acl_check_cmd, unpack(words))
	if not (known and granted) then lacking[#lacking + 1] = position end
	i = i + n + 1
end
return lacking`, true)

// mayCall returns the call to mayCallScript for commands.
func mayCall(commands [][]string) Call {
	c := Call{Script: mayCallScript}
	for _, words := range commands {
		c.Args = append(append(c.Args, strconv.Itoa(len(words))), words...)
	}
	return c
}

// namesAt returns the commands at the positions that mayCallScript has returned, as rules of an
// ACL name them: client|id.
func namesAt(commands [][]string, positions []int64) []string {
	names := make([]string, len(positions))
	for i, position := range positions {
		words := commands[position-1]
		names[i] = words[0]
		if words[0] == "client" || words[0] == "function" {
			names[i] += "|" + words[1]
		}
	}
	return names
}
