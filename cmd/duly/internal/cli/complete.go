package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// completionTimeout limits the wait of the shell for names of queues.
const completionTimeout = 500 * time.Millisecond

// completions is cobra's type for the completion of arguments.
type completions = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// completeQueues completes names of queues for the first n arguments, or for all
// arguments if n is 0. It does not open a file, because that would lock the file.
func (a *app) completeQueues(n int) completions {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		// All names are typed. Without the directive the shell would offer files.
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return a.queueNames(ctx, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTopics completes names of topics for the first n arguments.
func (a *app) completeTopics(n int) completions {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return a.namesWithPrefix(ctx, word, func(s *session, page duly.PageParams) (duly.NamePage, error) {
			topics, err := s.topics()
			if err != nil {
				return duly.NamePage{}, err
			}
			return topics.Topics(ctx, s.namespace, page)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) queueNames(ctx context.Context, prefix string) []string {
	return a.namesWithPrefix(ctx, prefix, func(s *session, page duly.PageParams) (duly.NamePage, error) {
		return s.Queues(ctx, s.namespace, page)
	})
}

// namesWithPrefix returns the names of a list's first page that begin with prefix.
func (a *app) namesWithPrefix(
	ctx context.Context, prefix string, list func(*session, duly.PageParams) (duly.NamePage, error),
) (names []string) {
	at, err := a.findEndpoint()
	if err != nil || !isRemote(at.url) && !open.Redis(at.url) {
		return nil
	}
	s, err := a.connect(ctx, false)
	if err != nil {
		return nil
	}
	defer s.Close()

	// One page is enough, because completion must be fast. Errors are dropped, because their text
	// would appear at the prompt.
	page, err := list(s, duly.PageParams{Limit: duly.MaxBatch})
	if err != nil {
		return nil
	}
	for _, name := range page.Names {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// completeValues completes the value of a flag that has only these values.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	// A missing flag is a bug of this program, not a mistake of its user.
	if err != nil {
		panic("cli: no flag " + flag + " in " + cmd.Name())
	}
}

// completePrefixes completes the scheme of a URL.
func completePrefixes(cmd *cobra.Command, flag string, schemes []string) {
	// NoSpace, because the user continues with the rest of the URL.
	complete := cobra.FixedCompletions(schemes, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("cli: no flag " + flag + " in " + cmd.Name())
	}
}

// stateNames returns the values of every --state flag.
func stateNames() (names []string) {
	for _, s := range duly.States {
		names = append(names, s.String())
	}
	return names
}

// noCompletion completes nothing, not even files.
func noCompletion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
