// Command httpload measures a duly server with one job per request. It uses a fixed number of
// connections. Each sends its next request when the last one was answered, as wrk does.
//
//	DULY_TOKEN=… httpload [-work push] [-connections 64] [-time 10s] [-body 100] [-json] http://127.0.0.1:7777/default
//
// The work is one of:
//
//   - push: POST /push of the native API.
//   - publish: the publish of the lmstfy API.
//   - take: consume and ack of the lmstfy API. A bulk publish fills the queue before the
//     measurement. It counts jobs, not requests.
//   - flow: a quarter of the connections publish. The others consume with a wait of one
//     second and ack. It counts acknowledged jobs.
//
// With -pid and -redis it also prints what the server's process and Redis have used per job: CPU
// time and script calls.
//
//	httpload bare 127.0.0.1:0
//
// is the baseline: a net/http server that reads each request and sends a response as long as
// duly's. It prints its URL and serves until it receives a signal.
//
// The load uses bare connections and prepared requests, so that it takes little of the machine
// that it shares with the server. It counts only responses that confirm the operation. At the end
// it destroys the queue that it has created, bench-http-…. That needs the right admin. Without
// it, a warning names the queue.
package main
