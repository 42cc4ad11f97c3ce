"""Are rules sound, and do the tests hold that they carry: for `phalanx rules`, the suite and a site's own CI."""
