package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// TargetPage is a page of targets.
type TargetPage struct {
	Targets []contract.PushTarget
	Next    string
}

const (
	maxStatuses   = 100
	maxSignatures = 2
)

func (f *fields) targetSettings(s *contract.PushTargetSettings) {
	f.request("TargetSettings")
	f.sharedSettings(s)
	f.headers(&s.Headers, always, `maxProperties:"32"`, "Headers of each request. They are secrets, "+
		"and no answer has their values. Bound: 8 KiB together. Default: none.")
	f.text("secret", &s.Secret, optional, "", "Becomes the target's own secret, which alone signs from now on: "+
		"whsec_ and 24 to 64 bytes as base64, or whsk_ and 32. "+
		"Default: the secret stays, at first that of the namespace.")
}

// sharedSettings declares the settings that answers have as well.
func (f *fields) sharedSettings(s *contract.PushTargetSettings) {
	f.text("url", &s.URL, required, urlBounds,
		"Where jobs go: https, or http to an address that the server allows.")
	f.name("method", &s.Method, optional, `enum:"POST,PUT,PATCH"`, "The method of the requests. Default: POST.")
	f.period("timeout", &s.Timeout, "How long a try may take, with its connection. Bound: 1s to 10m. Default: 10s.")
	f.ints("success", &s.Success, maxStatuses, `maxItems:"100"`,
		"More statuses that are a success. Default: 2xx alone.")
	f.ints("permanent", &s.Permanent, maxStatuses, `maxItems:"100"`, "Statuses after which a job is dead. "+
		"Default: 410 disables the target, and the others are tried again.")
	f.count("concurrency", &s.Concurrency, optional, `minimum:"1" maximum:"10000"`,
		"Requests in flight of each server at most. Default: 64.")
	f.rate(&s.Rate.PerSecond, optional, "Requests per second of each server at most. Default: none.")
	f.count("burst", &s.Rate.Burst, optional, burstRange,
		"Requests at once after a pause. Default: the rate, rounded up.")
	texts(f, "sign", &s.Sign, maxSignatures, optional, `maxItems:"2"`,
		"Signatures of each request: v1 (HMAC-SHA256), v1a (ed25519), or both. Default: v1.")
	f.text("ca", &s.CA, optional, `maxLength:"65536"`, "More authorities for the receiver's certificate, in PEM. "+
		"Default: those of the system alone.")

	// The field is the opposite of Disabled, so that its default is true.
	enabled := !s.Disabled
	f.bool("enabled", &enabled, always, "false: nothing is sent, and jobs wait. Default: true.")
	if f.task == reading {
		s.Disabled = !enabled
	}
}

func (f *fields) target(t *contract.PushTarget) {
	f.answer("Target")
	f.text("name", &t.Name, required, "", "The name.")
	f.sharedSettings(&t.Settings)
	texts(f, "header_names", &t.HeaderNames, duly.MaxHeaders, optional, "", "The names of its headers.")
	f.bool("own_secret", &t.OwnSecret, required,
		"Whether it has a secret of its own, and not that of the namespace.")
	f.time("overlap_until", &t.OverlapUntil, optional, "Until when the secret before the newest one signs, too.")
	f.integer("version", &t.Version, "Counts its changes.")
	pointer(f, "host", &t.Host, "The gate of its host in this server, if it was used.", (*fields).pushHost)
}

func (f *fields) targets(p *TargetPage) {
	f.answer("Targets")
	list(f, "targets", &p.Targets, required, "The targets of this page, by name.", (*fields).target)
	f.cursor(&p.Next)
}

func (f *fields) pushHost(h *contract.PushHost) {
	f.answer("PushHost")
	f.text("host", &h.Host, required, "", "Scheme, name and port.")
	f.bool("open", &h.Open, required, "false: the gate admits nothing, or one probe.")
	f.period("closed", &h.Closed, "How long it stays closed.")
	f.int("limit", &h.Limit, required, "", "Requests that it admits at once.")
	f.int("in_flight", &h.InFlight, required, "", "Requests under way.")
	f.int("held_back", &h.HeldBack, required, "", "Jobs that wait for their turn, about.")
	f.period("usual", &h.Usual, "How long answers usually take.")
}

func (f *fields) pushHosts(hosts *[]contract.PushHost) {
	f.answer("PushHosts")
	list(f, "hosts", hosts, required, "The host that was used last first.", (*fields).pushHost)
}

func (f *fields) pushSecret(s *contract.PushSecret) {
	f.answer("PushSecret")
	f.text("secret", &s.Secret, required, "", "The key of v1 signatures, whsec_…")
	f.text("private_key", &s.PrivateKey, required, "", "The private key of v1a signatures, whsk_…")
	f.text("public_key", &s.PublicKey, required, "", "The public key that verifies them, whpk_…")
}

func (f *fields) pushRotate(p *contract.PushRotation) {
	f.request("Rotate")
	f.durationIfGiven("overlap", &p.Overlap, "How long the old secret signs, too; 0s ends it now. "+
		"Bound: 0s to 30d. Default: 24h.")
	f.text("secret", &p.Secret, optional, "",
		"The new secret: whsec_ and 24 to 64 bytes as base64, or whsk_ and 32. Default: random.")
}

func (f *fields) pushTest(t *contract.PushTest) {
	f.answer("PushTest")
	f.int("status", &t.Status, optional, "", "The status of the answer; absent without an answer.")
	enum(f, "as", &t.As, required, settlements, "How a job would be settled.")
	f.text("error", &t.Error, optional, "", "The error text that a job would have.")
	f.duration("took", &t.Took, required, "How long the request took.")
	f.text("webhook_id", &t.WebhookID, required, "", "The webhook-id of the request.")
}
