package server

import (
	"os"
	"path/filepath"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard"
	uihistory "github.com/dulymq/duly/server/dashboard/history"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/observe"
)

const (
	// UIPath is the path of the dashboard on the admin address.
	UIPath = dashboard.Prefix
	// UIKeyFile is the name of the default file with the key of sessions.
	UIKeyFile = session.KeyFile
)

// LoadUIKey returns the key of sessions in a file that only its owner may read. It creates the file if create is set.
func LoadUIKey(path string, create bool) ([]byte, error) { return session.LoadKey(path, create) }

// UIConfig configures the dashboard, which is on the admin address below /ui.
type UIConfig struct {
	// Key seals the cookies of sessions. Servers with one key share their sessions. Default: a random one, so that
	// every session ends with the server.
	Key []byte
	// Insecure permits a login over plain HTTP on an address that other machines reach.
	Insecure bool
	// Origin is the origin at which browsers reach the pages through a proxy.
	Origin string
	// ReadOnly refuses every action.
	ReadOnly bool
	// HideBodies removes bodies, headers and results from the pages.
	HideBodies bool
	// Label names the environment on every page. Color is blue, green, orange or red, "" for none.
	Label, Color string
	// History bounds the memory of the charts' history, in bytes. Its file is in the data folder. Default 64 MiB.
	History int64
}

// newDashboard returns the dashboard, nil if the server has none.
func (s *Server) newDashboard(cfg *Config, observed *observe.Engine) (*dashboard.Dashboard, error) {
	if cfg.UI == nil {
		return nil, nil
	}
	key := cfg.UI.Key
	if key == nil {
		key = session.NewKey()
	}
	history := uihistory.Config{
		Memory: cfg.UI.History, Lateness: cfg.Metrics.Lateness, Bounds: metrics.LatenessBounds(), Log: cfg.Logger,
	}
	if cfg.Listen.DataDir != "" {
		history.Path = filepath.Join(cfg.Listen.DataDir, uihistory.FileName)
	}
	scheduler, _ := observed.Engine.(duly.Scheduler)
	var targets func(namespace string) contract.PushTargets
	if push := s.push.routes(); push.Targets != nil {
		targets = push.Of
	}
	facts := dashboard.Facts{
		Calls: cfg.Metrics.Calls, CallBounds: metrics.CallBounds(), Refused: cfg.Metrics.NotStored,
	}
	if r := cfg.Store.Resetter; r != nil {
		facts.Reset = func() time.Time { return r.LastReset().At }
	}
	return dashboard.New(dashboard.Config{
		Engine: cfg.Engine, Surveyor: contract.SurveyorOf(observed.Engine), Explainer: contract.ExplainerOf(observed.Engine),
		Finder: contract.FinderOf(observed.Engine), KeyLister: contract.KeyListerOf(observed.Engine),
		Operations: s.operations, Server: hostname(),
		Guard: s.guard, Clock: cfg.Clock, Audit: s.audit, Version: cfg.Version, Key: key, Insecure: cfg.UI.Insecure,
		Secure: cfg.Listen.AdminTLS != nil,
		Origin: cfg.UI.Origin, ReadOnly: cfg.UI.ReadOnly, HideBodies: cfg.UI.HideBodies, Label: cfg.UI.Label, Color: cfg.UI.Color,
		History: history, Facts: facts, CheckDestination: s.push.checkDestination, Scheduler: scheduler, Targets: targets,
		Targeted: s.refreshBridges,
	})
}

// hostname returns the name of this machine.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// loginCode returns the function of the admin API that creates login codes, nil without a dashboard.
func loginCode(d *dashboard.Dashboard) func(*auth.Grant) (string, time.Time) {
	if d == nil {
		return nil
	}
	return d.NewLoginCode
}
