package wire

import "time"

// LoginCode opens one session of the dashboard.
type LoginCode struct {
	// Path is the page that takes the code, on the admin address.
	Path      string
	ExpiresAt time.Time
}

func (f *fields) loginCode(c *LoginCode) {
	f.answer("LoginCode")
	f.name("path", &c.Path, required, `example:"/ui/login?code=EXAMPLE"`,
		"The path of a page on the admin address, which opens one session. It contains the code.")
	f.time("expires_at", &c.ExpiresAt, required, "When the code expires.")
}
