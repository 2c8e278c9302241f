// Command httpload measures a duly server, one job per request, over a fixed
// number of connections that each send their next request when the last one was
// answered: what wrk does, without wrk.
//
//	DULY_TOKEN=… httpload [-work push] [-connections 64] [-time 10s] [-body 100] [-json] http://127.0.0.1:7777/default
//
// The work is one of:
//
//   - push: POST /push of the native API.
//   - publish: lmstfy's publish.
//   - take: lmstfy's consume and ack. The queue is filled by lmstfy's bulk publish
//     before, and not measured. Jobs count, not requests.
//   - flow: a quarter of the connections publish, the others consume with a wait of a
//     second and ack. The jobs that were acked count.
//
// With -pid and -redis it prints what the server's process and Redis have used per
// job: CPU, and calls of scripts.
//
//	httpload bare 127.0.0.1:0
//
// is the measure for all of that: a net/http server that reads each request and
// answers as many bytes as duly would. It prints its URL and serves until it is
// told to stop.
//
// The load works on bare connections with requests that are made once, so that on
// a machine which it shares with the server it takes as little from it as it
// can. It counts only answers that say that something was done. The queue that
// it makes, bench-http-…, is destroyed at the end; that needs the right admin,
// and a warning names the queue where it is missing.
package main
