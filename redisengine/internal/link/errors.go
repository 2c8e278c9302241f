package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// class says whether a failed call ran.
type class int

const (
	refused  class = iota // the server refused the call, and would refuse it again
	idle                  // the call did not run, and may be sent again
	noScript              // the call did not run, because the server does not know the script or function
	unknown               // the call may have run
)

// verdict classifies an error: whether the call ran, and what the operator should do.
type verdict struct {
	class     class
	code      duly.Code
	advice    string // one line: what is wrong and what to do
	refresh   bool   // the connected server is no longer the primary
	midScript bool   // the server refused a command in the middle of a script
}

// nothing ends the advice on a call that certainly did not run.
const nothing = "; nothing was done"

// halfDone ends the advice on an error of a script that may have written before it was refused.
const halfDone = ", then run duly check --repair, because the script may be half done"

// hostAndPort names the part of the URL to check if no server answers. asError replaces it for a
// socket, which has a path.
const hostAndPort = "host and port"

// checkLogin ends the advice for a refused login.
const checkLogin = "; check both in the URL, where @ : / ? # % of a password are written %40 %3A %2F %3F %23 %25, " +
	"and ACL GETUSER there"

// replyWords maps the first word of a server's error to its verdict.
var replyWords = map[string]verdict{
	"MOVED":       {class: idle, advice: "the cluster is moving slots" + nothing},
	"ASK":         {class: idle, advice: "the cluster is moving slots" + nothing},
	"TRYAGAIN":    {class: idle, advice: "the cluster is moving this slot" + nothing},
	"CLUSTERDOWN": {class: idle, advice: "the cluster does not serve this slot (CLUSTERDOWN); see CLUSTER INFO" + nothing},
	"LOADING":     {class: idle, advice: "the server is loading its data" + nothing},
	"MASTERDOWN": {class: idle, advice: "the server is a replica without its primary (MASTERDOWN)" + nothing,
		refresh: true},
	"READONLY": {
		class:   idle,
		advice:  "the server is a replica, which takes no writes; connect to the primary, or with redis+sentinel://" + nothing,
		refresh: true,
	},
	"BUSY": {
		class: idle,
		advice: "another client's script blocks the server (BUSY); SCRIPT KILL or FUNCTION KILL ends one that has not " +
			"written" + nothing,
	},
	"UNBLOCKED": {class: idle, advice: "the server has become a replica" + nothing, refresh: true},
	"NOSCRIPT":  {class: noScript, advice: "the server does not keep the script" + nothing},
	"OOM": {
		code:   duly.CodeFull,
		advice: "the server's memory is full (maxmemory); nothing was stored: raise it or end jobs, then repeat",
	},
	"MISCONF": {
		code: duly.CodeFull,
		advice: "the server can't write its data to disk (MISCONF) and takes no writes; nothing was stored: see its " +
			"log, make room, then repeat",
	},
	"NOREPLICAS": {
		code:   duly.CodeUnavailable,
		advice: "the server has too few replicas in step (min-replicas-to-write) and takes no writes" + nothing,
	},
	"WRONGTYPE": {
		code: duly.CodeCorrupt,
		advice: "a key under the prefix %s has a value of another type: another program has written there; " +
			"choose another prefix in the URL, or remove that key and run duly check --repair",
	},
	"NOAUTH": {code: duly.CodeUnauthorized,
		advice: "the server requires a password; write it into the URL, redis://[USER]:PASSWORD@HOST"},
	"WRONGPASS": {
		code:   duly.CodeUnauthorized,
		advice: "the server does not take this user and password, or has disabled the user" + checkLogin,
	},
	"DENIED": {
		code:   duly.CodeUnauthorized,
		advice: "the server is in protected mode: it requires a password, or clients on its own machine",
	},
	"NOPERM": {code: duly.CodeForbidden, advice: "the server's user lacks a right (%s); grant it with ACL SETUSER"},
}

// replyPhrases classifies errors without a code word by a part of their text. The first match
// counts.
var replyPhrases = []struct {
	text string
	verdict
}{
	{"Function not found", verdict{class: noScript, advice: "the server does not keep the function" + nothing}},
	{"max number of clients", verdict{class: idle, advice: "the server has too many clients (maxclients)" + nothing}},
	{
		"DB index is out of range",
		verdict{
			code: duly.CodeInvalid,
			advice: "the server has no database of this number; lower db in the URL, or raise databases in the server's " +
				"configuration",
		},
	},
	{
		"AUTH <password> called without any password",
		verdict{code: duly.CodeUnauthorized,
			advice: "the URL has a password, and the server has none: remove it, or set one there"},
	},
	{"invalid password", verdict{code: duly.CodeUnauthorized, advice: "the server does not take this password" +
		checkLogin}},
	{
		"cluster support disabled",
		verdict{code: duly.CodeInvalid, advice: "this is not a cluster; begin the URL with redis:// (rediss:// for TLS)"},
	},
	{
		"No such master with that name",
		verdict{code: duly.CodeInvalid, advice: "the Sentinels watch no primary with this name; see SENTINEL MASTERS"},
	},
	{
		"The user executing the script can't",
		verdict{code: duly.CodeForbidden, advice: "the server's user lacks a right (%s); grant it with ACL SETUSER"},
	},
	{"ACL failure in script", verdict{code: duly.CodeForbidden,
		advice: "the server's user lacks a right (%s); grant it with ACL SETUSER"}},
	{
		"unknown command 'SENTINEL'",
		verdict{
			code: duly.CodeInvalid,
			advice: "this is not a Sentinel; name the Sentinels, or begin the URL with redis:// for one server, " +
				"redis+cluster:// for a cluster (rediss for TLS)",
		},
	},
	{
		"unknown command",
		verdict{
			code: duly.CodeUnsupported,
			advice: "the server does not know a command that duly needs (%s); duly needs Redis 7.0 or Valkey 7.2, and a " +
				"proxy must pass it on",
		},
	},
}

// verdictOf classifies an error of the client library other than its nil error.
func verdictOf(err error) verdict {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return verdictOfReply(e.Error())
	}
	var before unsent
	switch {
	case errors.As(err, &before):
		return verdictOfDial(before)
	case errors.Is(err, rueidis.ErrNoSlot):
		return verdictOfReply("CLUSTERDOWN")
	case strings.Contains(err.Error(), "unknown message type"):
		return verdict{class: unknown, code: duly.CodeUnavailable,
			advice: "the answer is not Redis's protocol; write rediss:// if the server speaks TLS, or check " + hostAndPort}
	}
	return verdict{
		class: unknown, code: duly.CodeUnavailable,
		advice: "the connection broke before the answer came (" + cause(err) + "); the call may have happened",
	}
}

// Untouched reports whether an error means that the call certainly did not run and may be sent
// again.
func Untouched(err error) bool {
	var e *duly.Error
	return errors.As(err, &e) && e.Code == duly.CodeUnavailable && e.Cause != nil && verdictOf(e.Cause).class == idle
}

// Partly converts the error of one part of a call to the error of the whole call. If that part
// certainly did not run, the other parts may have.
func Partly(err error) error {
	if !Untouched(err) {
		return err
	}
	e, _ := errors.AsType[*duly.Error](err)
	return &duly.Error{
		Code: e.Code, Cause: e.Cause,
		Message: strings.TrimSuffix(e.Message, nothing) + "; the rest of the call may have happened",
	}
}

// verdictOfReply classifies an error that the server answered.
func verdictOfReply(text string) verdict {
	word, _, _ := strings.Cut(text, " ")
	v, ok := replyWords[word]
	for _, p := range replyPhrases {
		if !ok && strings.Contains(text, p.text) {
			v, ok = p.verdict, true
		}
	}

	if !ok {
		return verdict{code: duly.CodeInternal, advice: "the server refused a call of this engine; the log has the details"}
	}
	// Words without a code are temporary states of the server.
	if v.code == "" {
		v.code = duly.CodeUnavailable
	}
	if v.code == duly.CodeForbidden || v.code == duly.CodeUnsupported {
		v.advice = fmt.Sprintf(v.advice, lackingRight(text))
	}

	v.midScript = inScript(text)
	return v
}

// inScript reports whether the server refused a command in the middle of a script. Redis keeps
// the script's earlier writes.
func inScript(text string) bool {
	return strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
}

// unnamedRight is used when the server's refusal does not name the right.
const unnamedRight = "see ACL LOG"

// lackingRight names the command or key that the server's refusal is about. Redis before 7.0
// quotes an unknown command as `NAME`.
func lackingRight(text string) string {
	text = strings.ReplaceAll(text, "`", "'")
	if _, rest, ok := strings.Cut(text, "'"); ok {
		name, what, ok := strings.Cut(rest, "'")
		// The quoted text may come from a user, so a long text is not repeated.
		if ok && len(name) <= 32 && !strings.HasPrefix(what, " key") && !strings.HasPrefix(what, " channel") {
			return "command " + name
		}
	}
	switch {
	case strings.Contains(text, "key"):
		return "access to keys under the prefix"
	case strings.Contains(text, "channel"):
		return "access to a channel"
	}
	return unnamedRight
}

// verdictOfDial classifies a failure to connect.
func verdictOfDial(u unsent) verdict {
	v := verdict{class: idle, code: duly.CodeUnavailable}
	var untrusted *tls.CertificateVerificationError
	var dns *net.DNSError
	switch text := cause(u.error); {
	case errors.As(u, &untrusted):
		v.advice = "the server's certificate is not trusted (" + text + "); see tls_ca and tls_server_name"
	case strings.Contains(text, "tls: ") && u.stage == atGreet:
		v.advice = "the server does not take our certificate (" + text + "); see tls_cert and tls_key"
	case u.stage == atTLS:
		v.advice = "the TLS handshake failed (" + text + "); if the server has no TLS, write redis:// instead of rediss://"
	case u.stage == atGreet:
		v.advice = "the server accepts the connection, but does not answer the greeting (" + text +
			"); check that Redis listens there, and write rediss:// if it speaks TLS"
	case errors.As(u, &dns):
		v.advice = "the host is not found (" + text + "); check the host in the URL"
	default:
		v.advice = "no server answers there (" + text + "); check that the server runs, and " + hostAndPort
	}

	v.advice += nothing
	return v
}

// cause returns the text of a network error in one line. It contains no secret.
func cause(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// unanswered returns the error of a caller whose context ended before the answer.
func unanswered(ctx context.Context) error { return contract.Unanswered(ctx.Err()) }

// left adds the context's error to the error of a call whose caller left during the retries. The
// message keeps the reason why the call has not run.
func left(ctx context.Context, err error) error {
	e, ok := err.(*duly.Error)
	if !ok || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return &duly.Error{Code: e.Code, Message: e.Message, Cause: errors.Join(ctx.Err(), err)}
}
