package reference

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Every guide of docs/ is a page, and whatever it links to is there.
func TestEveryGuideIsAPageWhoseLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	r, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{guideIndex, "concepts", "policy", "limits-of-onceward", "integrate-go", "integrate-rest", "operations", "threat-model", "administration", "dashboard", "configuration"} {
		if _, ok := r.guides[name]; !ok {
			t.Errorf("there is no guide %s", name)
		}
	}
	href := regexp.MustCompile(`href="([^"]*)"`)
	for name := range r.guides {
		body := get(t, h, "/docs/"+name).Body
		for _, found := range href.FindAllStringSubmatch(body, -1) {
			target := found[1]
			if strings.HasPrefix(target, "#") {
				target = name + target
			}
			path, fragment, _ := strings.Cut(target, "#")
			if strings.Contains(path, "://") {
				continue
			}
			address := "/docs/" + path
			if outside, ok := strings.CutPrefix(path, "../"); ok {
				address = "/" + outside
			}
			there := get(t, h, address)
			if there.StatusCode != http.StatusOK || fragment != "" && !strings.Contains(there.Body, ` id="`+fragment+`"`) {
				t.Errorf("%s: the link %s leads nowhere (%d)", name, found[1], there.StatusCode)
			}
		}
	}
	for _, text := range []string{"<table>", "createdb onceward_restored", `<a href="administration#`} {
		if !strings.Contains(get(t, h, "/docs/operations").Body, text) {
			t.Errorf("the guide to operations lacks %s", text)
		}
	}
	if got := get(t, h, "/docs/nothing").StatusCode; got != http.StatusNotFound {
		t.Errorf("a guide that is not there: %d, want 404", got)
	}
}
