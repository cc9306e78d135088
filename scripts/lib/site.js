// Lets readers choose the version of the site, if the folder above has a list of versions (scripts/site --version).
document.addEventListener('DOMContentLoaded', async () => {
	const root = new URL(base_url + '/', location.href), all = new URL('../', root);
	const versions = await fetch(new URL('versions.json', all)).then(r => (r.ok ? r.json() : []), () => []);
	const present = root.pathname.split('/').at(-2);
	if (!versions.includes(present))
		return;
	const select = document.createElement('select');
	select.setAttribute('aria-label', 'Version');
	for (const version of versions)
		select.add(new Option(version, version, false, version === present));
	// a page that the other version does not have: its first page
	select.addEventListener('change', async () => {
		const first = new URL(select.value + '/', all), same = new URL(location.href.slice(root.href.length), first);
		const answer = await fetch(same, { method: 'HEAD' });
		location.href = answer.ok ? same.href : first.href;
	});
	document.querySelector('.wy-side-nav-search').append(select);
});

// A button for light or dark pages. site_hooks.py puts the choice, or that of the system, into each page's head.
document.addEventListener('DOMContentLoaded', () => {
	const root = document.documentElement, system = matchMedia('(prefers-color-scheme: dark)');
	const name = () => (system.matches ? 'dark' : 'light');
	const button = document.createElement('button');
	const show = scheme => {
		root.dataset.scheme = scheme;
		button.textContent = scheme === 'dark' ? 'Light' : 'Dark';
	};
	button.className = 'scheme';
	button.type = 'button';
	button.title = 'Change between light and dark pages';
	button.addEventListener('click', () => {
		show(root.dataset.scheme === 'dark' ? 'light' : 'dark');
		// a choice that equals the system's follows the system again
		try {
			if (root.dataset.scheme === name())
				localStorage.removeItem('scheme');
			else
				localStorage.setItem('scheme', root.dataset.scheme);
		} catch { /* the browser stores nothing for this site */ }
	});
	system.addEventListener('change', () => show(name()));
	show(root.dataset.scheme ?? name());
	document.querySelector('.wy-side-nav-search').append(button);
});
