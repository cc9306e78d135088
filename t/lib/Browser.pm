# Browser.pm - pages as a browser shows them
#
#   use Browser;
#   if (my $browser = browser()) { is(look($browser, 'page.html', 400, 'dark', 'page.png'), '', 'narrow and dark') }
#
# look() draws a page at a width and in a colour scheme, writes the picture, and returns the faults
# as text. Faults are: a page wider than the window, text that is cut off or overlaps, and text in
# the colour of its background. Needs chromium.

package Browser;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use File::Temp;
use IPC::Run ();
use JSON::PP;

our @EXPORT = qw(browser look);

# Runs in the page that holds the other one in a frame.
my $script = <<'END';
function look() {
	const view = document.getElementById('view'), page = view.contentDocument, wrong = [];
	const root = page.documentElement;
	if (root.scrollWidth > view.clientWidth)
		wrong.push('page is ' + root.scrollWidth + ' wide, window ' + view.clientWidth);
	// lines of text, and the boxes that cut them off: what scrolls by itself may be wider
	const lines = [], walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		if (!node.data.trim())
			continue;
		const element = node.parentElement, style = view.contentWindow.getComputedStyle(element);
		if (style.visibility == 'hidden' || style.display == 'none')
			continue;
		const range = page.createRange();
		range.selectNodeContents(node);
		// what stays in its place lies above what scrolls
		let clip = null, fixed = false;
		for (let up = element; up; up = up.parentElement)
			fixed = fixed || view.contentWindow.getComputedStyle(up).position == 'fixed';
		for (let up = element; up; up = up.parentElement)
			if (/auto|scroll|hidden/.test(view.contentWindow.getComputedStyle(up).overflowX))
				{ clip = up.getBoundingClientRect(); break; }
		for (const box of range.getClientRects()) {
			if (box.width < 2 || box.height < 2 || (clip && (box.left >= clip.right || box.right <= clip.left)))
				continue;
			if (!fixed)
				lines.push({ box, text: node.data.trim().slice(0, 40), node });
		}
		let behind = element, back = 'rgba(0, 0, 0, 0)';
		for (; behind && back == 'rgba(0, 0, 0, 0)'; behind = behind.parentElement)
			back = view.contentWindow.getComputedStyle(behind).backgroundColor;
		const light = c => { const n = c.match(/[\d.]+/g).map(Number); return 0.3 * n[0] + 0.59 * n[1] + 0.11 * n[2]; };
		if (back != 'rgba(0, 0, 0, 0)' && Math.abs(light(style.color) - light(back)) < 60)
			wrong.push('hard to read: ' + node.data.trim().slice(0, 40));
	}
	lines.sort((a, b) => a.box.top - b.box.top);
	for (let i = 0; i < lines.length && wrong.length < 20; i++)
		for (let j = i + 1; j < lines.length && lines[j].box.top < lines[i].box.bottom - 3; j++) {
			const a = lines[i].box, b = lines[j].box;
			if (lines[i].node != lines[j].node && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 &&
				Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
				wrong.push('on each other: ' + lines[i].text + ' / ' + lines[j].text);
		}
	document.getElementById('answer').textContent = JSON.stringify({ lines: lines.length, height: root.scrollHeight, wrong });
}
END

# Returns the program of a browser, or nothing if there is none.
sub browser
{
	my ($found) = grep { -x } map { my $name = $_; map { "$_/$name" } split /:/, $ENV{PATH} } qw(chromium chromium-browser google-chrome);
	return $found;
}

sub _run
{
	my ($browser, $dark, @arguments) = @_;
	my $profile = File::Temp->newdir;
	my ($out, $err) = ('', '');

	# /proc and namespaces of containers do not let it make its own sandbox; the pages are ours
	IPC::Run::run([ $browser, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--no-first-run',
			'--disable-background-networking', '--host-resolver-rules=MAP * ~NOTFOUND', '--allow-file-access-from-files', '--virtual-time-budget=5000',
			"--user-data-dir=$profile", '--blink-settings=preferredColorScheme=' . ($dark ? 0 : 1), @arguments ],
		'<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(180)) or die "$browser: $err";
	return $out;
}

sub look
{
	my ($browser, $file, $width, $scheme, $picture) = @_;
	my $dark = $scheme eq 'dark';
	my $page = do
	{
		local $/;
		open my $fh, '<:raw', $file or die "$file: $!";
		<$fh>;
	};
	my $folder = dirname($file);

	# In a frame, whose width a browser does not round up. It is next to the page, for its style
	# sheets.
	my $source = $page =~ s/&/&amp;/gr =~ s/"/&quot;/gr;
	my $wrapper = "$folder/look-$$.html";
	my $write = sub {
		open my $fh, '>:raw', $wrapper or die "$wrapper: $!";
		print $fh qq{<!DOCTYPE html><html><head><meta charset="utf-8"><style>body { margin: 0 } iframe { border: 0; display: block }</style></head>
<body><iframe id="view" sandbox="allow-same-origin allow-scripts" width="$width" height="$_[0]" srcdoc="$source"></iframe><pre id="answer"></pre>
<script>$script
window.addEventListener('load', look);</script></body></html>};
		close $fh;
	};
	$write->(900);
	my ($answer) = _run($browser, $dark, '--window-size=1400,900', '--dump-dom', "file://$wrapper") =~ m{<pre id="answer">(\{.*\})</pre>}s
		or die "$browser has not looked at $file";
	$answer = JSON::PP->new->decode($answer =~ s/&lt;/</gr =~ s/&gt;/>/gr =~ s/&amp;/&/gr);
	my $height = $answer->{height} < 8000 ? $answer->{height} : 8000;
	$write->($height);
	_run($browser, $dark, "--window-size=" . ($width < 500 ? 500 : $width) . ",$height", "--screenshot=$picture", "file://$wrapper");
	unlink $wrapper;
	return 'an empty page' if $answer->{lines} < 5;
	return join("\n", @{ $answer->{wrong} });
}

1;
