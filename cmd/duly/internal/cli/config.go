package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/open"
)

// The variables that name a file of settings.
const (
	configFile = "DULY_CONFIG"
	lmstfyFile = "DULY_LMSTFY_CONFIG"
)

// files are those of settings that the flags name.
type files struct{ own, lmstfy string }

// settingFlags adds the flags for all that a server can be told.
func settingFlags(cmd *cobra.Command, files *files) {
	cmd.Flags().StringVar(&files.own, "config", "", "`file` with settings in TOML ("+configFile+")")
	cmd.Flags().StringVar(&files.lmstfy, "lmstfy-config", "", "`file` of lmstfy's configuration, as it is ("+lmstfyFile+")")
	config.Flags(cmd.Flags())
	for _, s := range config.Table {
		if s.OneOf() != nil {
			fixed(cmd, s.Flag, s.OneOf()...)
		}
	}
	beginnings(cmd, "engine", open.StoreSchemes())
}

// configuration reads what file, environment and flags say together.
func (a *app) configuration(f files, flags *pflag.FlagSet) (*config.Loaded, error) {
	return config.Load(config.Sources{
		File: a.setting(f.own, configFile), Lmstfy: a.setting(f.lmstfy, lmstfyFile), Getenv: a.env.Getenv, Flags: flags, CheckURL: a.env.CheckURL,
	})
}

// strays are the variables that look like duly's and are none.
func (a *app) strays() config.Faults {
	if a.env.Environ == nil {
		return nil
	}
	return config.Strays(a.env.Environ())
}

func configCommand(a *app) *cobra.Command {
	return a.group("config", "Look at how a server is set up, before it is started", configCheckCommand(a), configShowCommand(a))
}

// faultView is a fault for machines.
type faultView struct {
	Place   string `json:"place,omitempty"` // a file, a variable or a flag
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
}

func configCheckCommand(a *app) *cobra.Command {
	var file files
	var cmd *cobra.Command
	cmd = a.command("check", "Report everything that is wrong with a configuration",
		`Reads the settings as duly serve would, with the same flags, variables and file, and the files that they name. Nothing is
opened or changed. Prints every fault with its place; exit status 2 if there are any.`,
		`  duly config check --config /etc/duly/duly.toml
  duly config check --config duly.toml --json
  duly config check --lmstfy-config /etc/lmstfy/config.toml`,
		func(_ context.Context, p *printer, _ []string) error {
			c, err := a.configuration(file, cmd.Flags())
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			if strays := a.strays(); len(faults)+len(strays) > 0 {
				return a.faulty(p, faults, strays)
			}
			given := 0
			for _, v := range c.Values {
				if v.Origin != (config.Origin{}) {
					given++
				}
			}
			if p.json {
				return p.value(map[string]int{"settings": len(c.Values), "given": given})
			}
			for _, i := range c.Ignored {
				p.printf("%s: %s is not used: %s\n", i.Origin, i.Key, i.Reason)
			}
			p.printf("nothing is wrong; %s given, the rest are the defaults\n", plural(int64(given), "setting"))
			return nil
		})
	cmd.Args = noArgs
	settingFlags(cmd, &file)
	return cmd
}

// faulty prints the faults, one on each line, and then the variables that nothing
// reads, with which a server would start.
func (a *app) faulty(p *printer, faults, strays config.Faults) error {
	for _, f := range slices.Concat(faults, strays) {
		if !p.json {
			p.printf("%s\n", oneLine(f.String()))
		} else if err := p.value(faultView{f.Origin.Place, f.Origin.Line, f.Key, f.Problem}); err != nil {
			return err
		}
	}
	if err := p.flush(); err != nil {
		return err
	}
	if len(faults) == 0 {
		err := duly.Errorf(duly.CodeInvalid, "the environment has %s that nothing reads, and duly serve would start without what was meant", plural(int64(len(strays)), "variable"))
		return advise(err, "mend its name, or unset it")
	}
	err := duly.Errorf(duly.CodeInvalid, "the configuration has %s, and duly serve would not start with it", plural(int64(len(faults)+len(strays)), "fault"))
	return advise(err, "docs/configuration.md says what each setting may be")
}

// settingView is a setting for machines.
type settingView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configShowCommand(a *app) *cobra.Command {
	var file files
	var cmd *cobra.Command
	cmd = a.command("show", "Print the settings that a server would run with",
		`Prints each setting, and where it comes from: the default, a line of the file, a variable or a flag. Secrets are not
shown.`,
		`  duly config show --config /etc/duly/duly.toml
  DULY_DRAIN=1m duly config show --json`,
		func(_ context.Context, p *printer, _ []string) error {
			c, err := a.configuration(file, cmd.Flags())
			if err != nil {
				return err
			}
			t := p.newTable("SETTING", "VALUE", "FROM")
			for _, v := range c.Values {
				if !p.json {
					t.add(txt(v.Setting.Key), valueCell(v), txt(v.Origin.String()))
				} else if err := p.value(settingView{v.Setting.Key, v.Text, v.Origin.String()}); err != nil {
					return err
				}
			}
			t.flush()
			return nil
		})
	cmd.Args = noArgs
	settingFlags(cmd, &file)
	return cmd
}

// valueCell is a value, or what holds where there is none.
func valueCell(v config.Value) cell {
	if v.Text == "" {
		return cell{v.Setting.Unset, dim}
	}
	return txt(v.Text)
}
