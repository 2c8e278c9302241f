package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// The variables with the path of a configuration file.
const (
	configFile = "DULY_CONFIG"
	lmstfyFile = "DULY_LMSTFY_CONFIG"
)

// configFiles are the paths of the configuration files that the flags name.
type configFiles struct{ own, lmstfy string }

// settingFlags adds the flags of a server's settings.
func settingFlags(cmd *cobra.Command, files *configFiles) {
	cmd.Flags().StringVar(&files.own, "config", "", "`file` with settings in TOML ("+configFile+")")
	cmd.Flags().StringVar(&files.lmstfy, "lmstfy-config", "",
		"`file` with the configuration of lmstfy ("+lmstfyFile+")")
	config.Flags(cmd.Flags())
	for _, s := range config.Table {
		if s.OneOf() != nil {
			completeValues(cmd, s.Flag, s.OneOf()...)
		}
	}
	completePrefixes(cmd, "engine", open.StoreSchemes())
}

// loadConfig reads the configuration from the file, the environment and the flags.
func (a *app) loadConfig(f configFiles, flags *pflag.FlagSet) (*config.Loaded, error) {
	return config.Load(config.Sources{
		File: a.setting(f.own, configFile), Lmstfy: a.setting(f.lmstfy, lmstfyFile),
		Getenv: a.env.Getenv, Flags: flags, CheckURL: a.env.CheckURL,
	})
}

// unknownVariables returns an error for each variable that begins with DULY_ and that
// nothing reads.
func (a *app) unknownVariables() config.Errors {
	if a.env.Environ == nil {
		return nil
	}
	return config.UnknownVariables(a.env.Environ())
}

func configCommand(a *app) *cobra.Command {
	return a.group("config", "Check and print a server's configuration before it starts",
		configCheckCommand(a), configShowCommand(a))
}

// configErrorView is the JSON of an error in the configuration.
type configErrorView struct {
	Place   string `json:"place,omitempty"` // a file, a variable or a flag
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
}

func configCheckCommand(a *app) *cobra.Command {
	var files configFiles
	var cmd *cobra.Command
	cmd = a.command("check", "Report everything that is wrong with a configuration",
		`Reads the settings like duly serve, with the same flags, variables and file, and the files that they name. It opens
no engine and changes nothing. It prints every error with its origin. The exit status is 2 if there are errors.`,
		`  duly config check --config /etc/duly/duly.toml
  duly config check --config duly.toml --json
  duly config check --lmstfy-config /etc/lmstfy/config.toml`,
		func(_ context.Context, p *printer, _ []string) error {
			c, err := a.loadConfig(files, cmd.Flags())
			var errs config.Errors
			// Errors of the settings are results here. Any other error ends the command.
			if err != nil && !errors.As(err, &errs) {
				return err
			}

			// Unknown variables are collected too, so that one run shows everything to correct.
			if unknown := a.unknownVariables(); len(errs)+len(unknown) > 0 {
				return a.printConfigErrors(p, errs, unknown)
			}
			return printConfigSummary(p, c)
		})

	cmd.Args = noArgs
	settingFlags(cmd, &files)
	return cmd
}

// printConfigSummary prints the number of settings of a valid configuration.
func printConfigSummary(p *printer, c *config.Loaded) error {
	given := 0

	// The zero origin marks a default.
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
	p.printf("no errors; %s set, the others have their defaults\n", plural(int64(given), "setting"))
	return nil
}

// printConfigErrors prints the errors, one per line, and then the unknown variables. A
// server would start with unknown variables, but not with errors.
func (a *app) printConfigErrors(p *printer, errs, unknown config.Errors) error {
	for _, e := range slices.Concat(errs, unknown) {
		if !p.json {
			p.printf("%s\n", oneLine(e.Error()))
		} else if err := p.value(configErrorView{e.Origin.Source, e.Origin.Line, e.Key, e.Problem}); err != nil {
			return err
		}
	}
	// The lines must precede the error on the other stream.
	if err := p.flush(); err != nil {
		return err
	}

	// A server ignores unknown variables, so the message must not claim that it would fail.
	if len(errs) == 0 {
		err := contract.Errorf(duly.CodeInvalid, "the environment has %s; duly serve would start without them",
			plural(int64(len(unknown)), "unknown variable"))
		return withHint(err, "correct the names, or unset the variables")
	}
	err := contract.Errorf(duly.CodeInvalid, "the configuration has %s; duly serve would not start",
		plural(int64(len(errs)+len(unknown)), "error"))
	return withHint(err, "see the settings in docs/configuration.md")
}

// settingView is the JSON of a setting.
type settingView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configShowCommand(a *app) *cobra.Command {
	var files configFiles
	var cmd *cobra.Command
	cmd = a.command("show", "Print the settings of a configuration",
		`Prints each setting and its origin: the default, a line of the file, a variable or a flag. Secrets are not shown.`,
		`  duly config show --config /etc/duly/duly.toml
  DULY_DRAIN=1m duly config show --json`,
		func(_ context.Context, p *printer, _ []string) error {
			c, err := a.loadConfig(files, cmd.Flags())
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
	settingFlags(cmd, &files)
	return cmd
}

// valueCell returns the cell of a value, or the behaviour without a value.
func valueCell(v config.Value) cell {
	if v.Text == "" {
		return cell{v.Setting.Unset, dim}
	}
	return txt(v.Text)
}
