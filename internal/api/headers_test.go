package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func equateEmpty() cmp.Option { return cmpopts.EquateEmpty() }

func TestOnlyOneBearerTokenIsACredential(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values []string
		want   string
	}{
		"a token":                       {[]string{"Bearer owk_abc_DEF"}, "owk_abc_DEF"},
		"a JWT":                         {[]string{"Bearer a.b-c_d.e"}, "a.b-c_d.e"},
		"padding":                       {[]string{"Bearer ab/+~=="}, "ab/+~=="},
		"the scheme in other letters":   {[]string{"bEARER abc"}, "abc"},
		"several spaces":                {[]string{"Bearer   abc"}, "abc"},
		"no header":                     {nil, ""},
		"an empty header":               {[]string{""}, ""},
		"the scheme alone":              {[]string{"Bearer"}, ""},
		"an empty token":                {[]string{"Bearer "}, ""},
		"a token of spaces":             {[]string{"Bearer    "}, ""},
		"padding alone":                 {[]string{"Bearer =="}, ""},
		"padding in the middle":         {[]string{"Bearer a=b"}, ""},
		"two tokens":                    {[]string{"Bearer abc def"}, ""},
		"two tokens with a comma":       {[]string{"Bearer abc,def"}, ""},
		"a tab":                         {[]string{"Bearer\tabc"}, ""},
		"no space":                      {[]string{"Bearerabc"}, ""},
		"the token alone":               {[]string{"abc"}, ""},
		"another scheme":                {[]string{"Basic YTpi"}, ""},
		"two headers":                   {[]string{"Bearer abc", "Bearer abc"}, ""},
		"a token with bytes over ASCII": {[]string{"Bearer ab\u00e9"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := bearerToken(http.Header{"Authorization": tt.values})
			if ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("bearerToken = %q, %t; want %q", got, ok, tt.want)
			}
		})
	}
}

func TestPreferWaitIsReadAsRFC7240Says(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lines []string
		want  int // -1: no wait
	}{
		"nothing":                           {nil, -1},
		"another preference":                {[]string{"respond-async"}, -1},
		"a wait":                            {[]string{"wait=10"}, 10},
		"in other letters":                  {[]string{"WAIT=10"}, 10},
		"quoted":                            {[]string{`wait="10"`}, 10},
		"with blanks":                       {[]string{" wait = 10 "}, 10},
		"in a list":                         {[]string{"respond-async, wait=10, return=minimal"}, 10},
		"in the second header":              {[]string{"respond-async", "wait=10"}, 10},
		"with parameters":                   {[]string{"wait=10; foo=1"}, 10},
		"the first of two counts":           {[]string{"wait=10, wait=20"}, 10},
		"the first counts though it is bad": {[]string{"wait=soon, wait=20"}, -1},
		"none":                              {[]string{"wait=0"}, 0},
		"the most":                          {[]string{"wait=30"}, 30},
		"one past the most":                 {[]string{"wait=31"}, 30},
		"beyond every number":               {[]string{"wait=" + strings.Repeat("9", 400)}, 30},
		"leading zeros":                     {[]string{"wait=" + strings.Repeat("0", 400) + "7"}, 7},
		"a fraction":                        {[]string{"wait=1.5"}, -1},
		"a sign":                            {[]string{"wait=-1"}, -1},
		"a word":                            {[]string{"wait=long"}, -1},
		"no value":                          {[]string{"wait"}, -1},
		"an empty value":                    {[]string{"wait="}, -1},
		"an empty quoted value":             {[]string{`wait=""`}, -1},
		"half a quote":                      {[]string{`wait="1`}, -1},
		"inside another's quoted value":     {[]string{`x="a, wait=5"`}, -1},
		"after another's quoted value":      {[]string{`x="a\", wait=5", wait=6`}, 6},
		"as a parameter of another":         {[]string{"x; wait=5"}, -1},
		"empty elements":                    {[]string{",, ,wait=3"}, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := preferredWait(http.Header{"Prefer": tt.lines})
			if !ok {
				got = -1
			}
			if got != tt.want {
				t.Errorf("preferredWait = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAReplayIsAMessageOnlyWhereTheCallerNamesIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lines []string
		want  bool
	}{
		"nothing":                         {nil, false},
		"anything":                        {[]string{"*/*"}, false},
		"any application":                 {[]string{"application/*"}, false},
		"JSON":                            {[]string{"application/json"}, false},
		"a message":                       {[]string{"application/http"}, true},
		"in other letters":                {[]string{"Application/HTTP"}, true},
		"a message that is a response":    {[]string{"application/http;msgtype=response"}, true},
		"a message that is a request":     {[]string{"application/http;msgtype=request"}, false},
		"both":                            {[]string{"application/json, application/http"}, true},
		"both in two headers":             {[]string{"application/json", "application/http"}, true},
		"a message, else anything":        {[]string{"application/http, */*;q=0.1"}, true},
		"JSON rather than a message":      {[]string{"application/http;q=0.5, application/json"}, false},
		"a message rather than JSON":      {[]string{"application/http, application/json;q=0.9"}, true},
		"anything rather than a message":  {[]string{"application/http;q=0.5, */*"}, false},
		"the nearest range counts":        {[]string{"application/http;q=0.5, */*, application/json;q=0.2"}, true},
		"a message, little":               {[]string{"application/http;q=0.001"}, true},
		"no message":                      {[]string{"application/http;q=0, */*"}, false},
		"no message, and nothing else":    {[]string{"application/http;q=0"}, false},
		"a q that is none":                {[]string{"application/http;q=high"}, false},
		"a q past one":                    {[]string{"application/http;q=1.1"}, false},
		"a q that is no number":           {[]string{"application/http;q=NaN"}, false},
		"something that is no media type": {[]string{"application/http;;;, /"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := wantsMessage(http.Header{"Accept": tt.lines}); got != tt.want {
				t.Errorf("wantsMessage = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTheMediaTypeOfABody(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values []string
		want   string
	}{
		"JSON":                   {[]string{"application/json"}, mediaJSON},
		"JSON in UTF-8":          {[]string{"application/json; charset=utf-8"}, mediaJSON},
		"JSON in UTF-8, shouted": {[]string{`APPLICATION/JSON; charset="UTF-8"`}, mediaJSON},
		"JSON of some version":   {[]string{"application/json; v=2"}, mediaJSON},
		"JSON in Latin-1":        {[]string{"application/json; charset=iso-8859-1"}, ""},
		"JSON's cousins":         {[]string{"application/problem+json"}, ""},
		"text":                   {[]string{"text/json"}, ""},
		"a message":              {[]string{"application/http"}, mediaMessage},
		"a message with a type":  {[]string{"application/http; version=1.1; msgtype=response"}, mediaMessage},
		"a request":              {[]string{"application/http; msgtype=request"}, ""},
		"a form":                 {[]string{"application/x-www-form-urlencoded"}, ""},
		"nothing":                {nil, ""},
		"an empty header":        {[]string{""}, ""},
		"two headers":            {[]string{"application/json", "application/json"}, ""},
		"two types":              {[]string{"application/json, text/plain"}, ""},
		"a broken parameter":     {[]string{"application/json; charset"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := contentType(http.Header{"Content-Type": tt.values}); got != tt.want {
				t.Errorf("contentType = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestATraceIsTakenFromAValidTraceparentOnly(t *testing.T) {
	t.Parallel()
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	tests := map[string]struct {
		values []string
		want   string
	}{
		"version 00":                      {[]string{"00-" + id + "-" + parent + "-01"}, id},
		"a later version with more":       {[]string{"cc-" + id + "-" + parent + "-01-more"}, id},
		"version 00 with more":            {[]string{"00-" + id + "-" + parent + "-01-more"}, ""},
		"version 00 with a dash":          {[]string{"00-" + id + "-" + parent + "-01-"}, ""},
		"the version that never is":       {[]string{"ff-" + id + "-" + parent + "-01"}, ""},
		"no trace":                        {[]string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, ""},
		"no parent":                       {[]string{"00-" + id + "-" + strings.Repeat("0", 16) + "-01"}, ""},
		"upper case":                      {[]string{"00-" + strings.ToUpper(id) + "-" + parent + "-01"}, ""},
		"31 digits":                       {[]string{"00-" + id[1:] + "-" + parent + "-01"}, ""},
		"33 digits":                       {[]string{"00-" + id + "0-" + parent + "-01"}, ""},
		"no hexadecimal":                  {[]string{"00-" + strings.Repeat("g", 32) + "-" + parent + "-01"}, ""},
		"flags of one digit":              {[]string{"00-" + id + "-" + parent + "-1"}, ""},
		"cut short":                       {[]string{"00-" + id}, ""},
		"two headers":                     {[]string{"00-" + id + "-" + parent + "-01", "00-" + id + "-" + parent + "-01"}, ""},
		"nothing":                         {nil, ""},
		"something else":                  {[]string{"hello"}, ""},
		"letters outside the C0 alphabet": {[]string{"00-" + id[:31] + "\n-" + parent + "-01"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := traceID(http.Header{"Traceparent": tt.values}); got != tt.want {
				t.Errorf("traceID = %q, want %q", got, tt.want)
			}
		})
	}
}
