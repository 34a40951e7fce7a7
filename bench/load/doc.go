// Package load drives HTTP/1.1 servers over raw keep-alive connections and
// measures how long they take to answer.
//
// It owns sockets, the closed and the open loop, and the histograms. What is
// sent, and whether an answer is right, is a Script's. It must stay cheap: it
// shares the machine with the server that it measures, so one goroutine serves
// all connections through epoll, requests are bytes that were made before, and
// nothing is allocated per request.
package load
