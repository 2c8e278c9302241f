package hook

// HeaderKind classifies a request header by the component that sets it.
type HeaderKind uint8

// The kinds of request headers.
const (
	// Free headers come from the job or its target.
	Free HeaderKind = iota
	// Own headers are set by duly on every request.
	Own
	// Connection headers describe the connection and are not meant for the receiver.
	Connection
	// Credential headers may contain secrets, so they must be set in a target, which encrypts them.
	Credential
)

// KindOf returns the kind of a header by its name in lower case.
func KindOf(lower string) HeaderKind {
	switch lower {
	case "webhook-id", "webhook-timestamp", "webhook-signature", "duly-namespace", "duly-queue", "duly-id",
		"duly-attempt", "duly-tries", "duly-due", "user-agent":
		return Own
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect":
		return Connection
	case "authorization", "cookie":
		return Credential
	}
	return Free
}

// Reason returns why a job can't have a header of this kind, as a phrase to put after the
// header's name. It returns "" for headers that a job can have.
func (k HeaderKind) Reason() string {
	switch k {
	case Own:
		return "which duly sets itself; remove it"
	case Connection:
		return "which belongs to the connection; remove it"
	case Credential:
		return "which a job can't carry to a receiver; set it in a target"
	}
	return ""
}
