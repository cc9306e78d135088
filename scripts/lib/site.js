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
